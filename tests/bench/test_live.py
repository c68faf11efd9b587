from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cockpit.bench import live
from cockpit.bench.live import Plain, Watched
from cockpit.core.errors import CockpitError
from cockpit.run import open_run


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    net = nn.Linear(2, 1)
    return net, torch.optim.SGD(net.parameters(), lr=0.5)


def test_plain_losses_are_written_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE", 0.0)
    net, optimizer = parts()
    with Plain(net, optimizer, tmp_path, interval=2, name="a run", step=4, steps=10) as recorded:
        for step in range(4, 9):
            recorded.stepped(torch.tensor(float(step)))
        recorded.log(8, {"test_loss": 0.25})
    run = open_run(tmp_path)
    assert dict(zip(run["Loss"].steps.tolist(), run["Loss"].values.tolist(), strict=True)) == {4: 4.0, 6: 6.0, 8: 8.0}
    assert run["learning_rate"].values.tolist() == [0.5, 0.5, 0.5]
    assert run["test_loss"].steps.tolist() == [8]
    assert (run.name, run.state, run.reached, run.metadata["steps"]) == ("a run", "finished", 9, 10)


def test_a_plain_run_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Plain(*parts(), tmp_path, interval=1, name="a run", step=0, steps=10):
        raise ZeroDivisionError("oh")
    assert (open_run(tmp_path).state, open_run(tmp_path).reason) == ("crashed", "ZeroDivisionError: oh")


def test_a_watch_sees_individual_losses(tmp_path: Path) -> None:
    net, optimizer = parts()
    with Watched(
        net, optimizer, tmp_path, preset="economy", every=1, scaler=None, name="a run", step=0, steps=1
    ) as watched:
        losses: Tensor = net(torch.ones(3, 2))[:, 0]
        with pytest.raises(CockpitError, match=r"pit\.loss got a scalar"):
            watched.mean(losses.sum())
        watched.mean(losses).backward()
        optimizer.step()
        watched.log(0, {"test_loss": 1.0})
    assert open_run(tmp_path)["Loss"].values.tolist() == pytest.approx([float(losses.detach().mean())])
    assert open_run(tmp_path)["test_loss"].values.tolist() == [1.0]
    assert open_run(tmp_path).name == "a run"
