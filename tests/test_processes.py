"""Training in several processes: whose samples a number is of, and what is refused."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.small import draw, expected, net, reasons, sgd, train, watch, watched
from torch import Tensor, nn

from cockpit.core.errors import CockpitError
from cockpit.core.record import PROCESS
from cockpit.panels import deck
from cockpit.plots.summary import summary
from cockpit.tracking import attach

SAME = {"Distance", "UpdateSize"}  # in all processes

WORKER = """
import json, sys
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
from tests.small import draw, expected, net, sgd, train, twin, watch
rank = int(sys.argv[1])
dist.init_process_group("gloo", rank=rank, world_size=2)
found = {}
for which in ("wrapped", "inner"):
    model, loss_fn = net(), nn.CrossEntropyLoss()
    spread = nn.parallel.DistributedDataParallel(model)
    optimizer, batches = sgd(model), draw(6, 6, 6, seed=rank)
    truth = []
    with watch({"wrapped": spread, "inner": model}[which], optimizer, loss_fn) as pit:
        for x, y in batches:
            truth.append(expected(model, x, y))
            optimizer.zero_grad()
            loss_fn(spread(x), y).backward()
            optimizer.step()
    rows = pit.get_output().values()
    found[which] = {
        "measured": [[row["NormTest"], sum(v * v for v in row["GradNorm"].values()) ** 0.5] for row in rows],
        "true": [[t["NormTest"], sum(v * v for v in t["GradNorm"].values()) ** 0.5] for t in truth],
        "alpha": [row["Alpha"] for row in rows],
        "explain": pit.explain(),
    }
model = net()
fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
try:
    watch(model, sgd(model), nn.CrossEntropyLoss())
except Exception as error:
    found["sharded"] = str(error)
print(json.dumps(found))
dist.destroy_process_group()
"""


def test_every_process_measures_its_own_samples() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(rank)],
            env={**os.environ, **where, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank, process in enumerate(started):
        said, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        found = json.loads(said.splitlines()[-1])
        for which in ("wrapped", "inner"):
            for measured, true in zip(found[which]["measured"], found[which]["true"], strict=True):
                assert measured == pytest.approx(true)
            assert found[which]["alpha"][0] is not None
            assert f"process {rank} of 2" in found[which]["explain"]
            assert "cover all parameters" in found[which]["explain"]
        assert "sharded" in found["sharded"]
        assert "COCKPIT_DISABLED=1" in found["sharded"]


def test_every_number_says_whose_samples_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "process", lambda: "process 1 of 4")
    pit = watched(draw(4, 4, 4), quantities="full")
    for record in (record for record in pit.history if record.value is not None):
        assert (record.details.get(PROCESS) == "process 1 of 4") == (record.name not in SAME), record.name
    titles = {one.names: one.title for one in deck([pit.source()]) if not one.empty}
    assert titles["NormTest", "InnerTest", "OrthoTest"].endswith("samples of process 1 of 4")
    assert summary(pit.source())["quantities"]["GradNorm"][PROCESS] == "process 1 of 4"
    assert "process 1 of 4" in pit.explain()


class DTensor(nn.Parameter):
    """In the place of torch's."""


def test_sharded_parameters_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()
    model[0].weight = DTensor(model[0].weight.detach())
    with pytest.raises(CockpitError, match="sharded over processes"):
        watch(model, sgd(model))
    monkeypatch.setenv("COCKPIT_DISABLED", "1")
    watch(model, sgd(model)).close()


@pytest.mark.parametrize("factor", [0.5, 0.0])
def test_a_gradient_that_is_changed_as_soon_as_it_lies_there(factor: float) -> None:
    """As processes do that share gradients: what arrived is measured, at first sight and when steps are familiar."""
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer, truth = sgd(model), []

    def change(p: Tensor) -> None:
        assert p.grad is not None
        p.grad.mul_(factor)

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(change)
    with watch(model, optimizer, loss_fn) as pit:
        for x, y in draw(6, 6, 6):
            truth.append(expected(model, x, y))
            train(model, optimizer, loss_fn, [(x, y)])
    assert not reasons(pit, "NormTest")
    for row, true in zip(pit.get_output().values(), truth, strict=True):
        assert row["NormTest"] == pytest.approx(true["NormTest"])
        assert row["GradNorm"] == pytest.approx(true["GradNorm"])
