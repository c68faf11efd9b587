"""A watched run on disk: what is written, by which name, and that nothing on the disk can harm the training."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.running import ROOT, python
from tests.small import draw, net, sgd, train, watch, watched
from torch import nn

import cockpit
from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.dashboard.api import ANSWERS
from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.query import Query
from cockpit.plots.summary import summary
from cockpit.store import StoredRun, runs
from cockpit.store.folder import choose_folder


def trained(folder: Any, steps: int = 6, first: int = 0, **options: Any) -> nn.Module:
    """Train the small net for some steps, watched at every one."""
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, run=folder, step=first, **options):
        train(model, optimizer, loss_fn, draw(*[8] * steps))
    return model


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


# ---- what is written


def test_what_was_measured_is_what_is_read(tmp_path: Path) -> None:
    pit = watched(draw(*[8] * 5), quantities="full", run=tmp_path / "run")
    assert pit.folder == tmp_path / "run"
    read, kept = StoredRun(tmp_path / "run").output(), pit.get_output()
    assert list(read) == list(kept)
    for step, values in kept.items():
        for name, value in values.items():
            found = read[step][name]
            if isinstance(value, Histogram):
                assert (found.counts == value.counts).all()
                assert all((found.parts[part] == counts).all() for part, counts in value.parts.items())
            else:
                assert found == value, (step, name)


def test_circumstances_are_in_the_run_and_not_in_the_output(tmp_path: Path) -> None:
    pit = watched(draw(8, 6), run=tmp_path / "run")
    run = StoredRun(tmp_path / "run")
    assert run.scalar("learning_rate").values.tolist() == [0.1, 0.1]
    assert run.scalar("batch_size").values.tolist() == [8, 6]
    assert (run.scalar("tracking_seconds").values > 0).all()
    assert "learning_rate" not in pit.get_output()[0]
    assert pit.source().scalar("batch_size").values.tolist() == [8, 6]


def test_every_parameter_group_has_its_learning_rate(tmp_path: Path) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    first, *rest = model.parameters()
    optimizer = torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": rest, "lr": 0.2}])
    with watch(model, optimizer, loss_fn, run=tmp_path / "run"):
        train(model, optimizer, loss_fn, draw(8))
    run = StoredRun(tmp_path / "run")
    assert [run.scalar(name).values[0] for name in ("learning_rate", "learning_rate[1]")] == [0.1, 0.2]


def test_a_learning_rate_that_the_user_logs_stands_beside_the_recorded_one(tmp_path: Path) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, run=tmp_path / "run") as pit:
        train(model, optimizer, loss_fn, draw(8))
        pit.log(learning_rate=7.0)
    for source in (StoredRun(tmp_path / "run"), pit.source()):
        assert source.scalar("learning_rate").values.tolist() == [0.1]
        assert source.scalar("learning_rate (logged)").values.tolist() == [7.0]
    assert pit.get_output()[0]["learning_rate"] == 7.0


def test_the_metadata_say_what_was_run(tmp_path: Path) -> None:
    watched(draw(8), run=tmp_path / "run", steps=20)
    data = StoredRun(tmp_path / "run").metadata
    assert data["model"]["class"] == "Sequential"
    names = [entry["name"] for layer in data["model"]["layers"] for entry in layer["parameters"]]
    assert names == [name for name, _ in net().named_parameters()]
    assert data["optimizers"][0]["class"] == "SGD"
    assert data["optimizers"][0]["groups"][0]["lr"] == 0.1
    assert (data["loss"], data["device"], data["steps"]) == ("CrossEntropyLoss", "cpu", 20)
    assert "Alpha" in [entry["name"] for entry in data["quantities"]]
    assert data["schedule"] == "every step"
    assert data["packages"]["torch"].startswith(torch.__version__.split("+")[0])
    assert data["cost"]["tracked"] == 1
    assert data["cost"]["seconds"]["GradNorm"] > 0
    assert "Individual gradients cover all parameters" in data["coverage"]
    assert {"host", "pid", "started", "command", "directory", "git"} <= data.keys()


def test_metrics_reach_the_run(tmp_path: Path) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, ["Loss"], run=tmp_path / "run") as pit:
        train(model, optimizer, loss_fn, draw(4, 4))
        pit.log(accuracy=0.5)
        pit.log(step=40, **{"<b>val/loss</b>": 1.0})
    run = StoredRun(tmp_path / "run")
    assert (run.scalar("accuracy").steps.tolist(), run.scalar("accuracy").values.tolist()) == ([1], [0.5])
    assert run.scalar("<b>val/loss</b>").steps.tolist() == [40]


# ---- where


def test_by_default_a_run_gets_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path / "all"))
    for _ in range(3):
        trained(None, steps=1)
    found = runs(tmp_path / "all")
    assert len(found) == 3
    assert all(info.name.endswith("Sequential") or "Sequential-" in info.name for info in found)


def test_without_a_setting_it_is_the_folder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COCKPIT_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert choose_folder(None, "a model/<b>") is not None
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name.endswith("-a_model_b_")


def test_the_folder_and_the_notebook_follow_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path))
    pit = watched(draw(4), run=None, name="warm-up 3")
    pit.close()
    assert pit.folder is not None
    assert pit.folder.name.endswith("-warm-up_3")
    assert (pit.source().name, cockpit.open_run(pit.folder).name) == ("warm-up 3", "warm-up 3")
    assert watched(draw(4), run=False, name="in memory").source().name == "in memory"


def test_false_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path))
    pit = watched(draw(4), run=False)
    assert pit.folder is None
    assert list(tmp_path.iterdir()) == []


def test_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert choose_folder("~/runs/a", "net") == tmp_path / "runs" / "a"


@pytest.mark.parametrize("run", [3, 1.5, "", " ", ["a"]])
def test_a_folder_that_is_none_is_refused(run: Any) -> None:
    with pytest.raises(CockpitError, match=r"run is .*; give a folder, or False"):
        trained(run)


# ---- how it ends


def test_states(tmp_path: Path) -> None:
    trained(tmp_path / "good")
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    pit = watch(model, optimizer, loss_fn, run=tmp_path / "bad")
    train(model, optimizer, loss_fn, draw(4, 4))
    assert StoredRun(tmp_path / "bad").state == "running"
    with pytest.raises(RuntimeError, match="no more"), pit:
        raise RuntimeError("no more")
    assert StoredRun(tmp_path / "good").state == "finished"
    bad = StoredRun(tmp_path / "bad")
    assert (bad.state, bad.reason) == ("crashed", "RuntimeError: no more")
    assert pit.get_output().keys() == bad.output().keys()


@pytest.mark.parametrize(("code", "state"), [(0, "finished"), (None, "finished"), (4, "crashed")])
def test_a_training_that_exits(tmp_path: Path, code: int | None, state: str) -> None:
    model = net()
    with pytest.raises(SystemExit), watch(model, sgd(model), run=tmp_path / "run"):
        raise SystemExit(code)
    assert StoredRun(tmp_path / "run").state == state


SCRIPT = """
import sys, torch
from torch import nn
import cockpit
model, loss_fn = nn.Linear(3, 2), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pit = cockpit.watch(model, optimizer, loss_fn, every=1, run=sys.argv[1])
for step in range(5):
    optimizer.zero_grad()
    loss_fn(model(torch.randn(4, 3)), torch.tensor([0, 1, 0, 1])).backward()
    optimizer.step()
    {end}
"""


@pytest.mark.parametrize(
    ("end", "code", "state", "reason"),
    [
        ("pass", 0, "ended", "ended without close"),
        ("if step == 2: raise ZeroDivisionError('oh')", 1, "crashed", "ended without close: ZeroDivisionError: oh"),
        ("if step == 2: sys.exit(3)", 3, "ended", "ended without close"),
    ],
)
def test_a_run_that_nobody_closes(tmp_path: Path, end: str, code: int, state: str, reason: str | None) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(end=end))
    done = python(tmp_path / "train.py", tmp_path / "run", cwd=tmp_path, PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == code, done.stderr
    run = StoredRun(tmp_path / "run")
    assert (run.state, run.reason) == (state, reason)
    assert len(run.scalar("Loss")) == (5 if code == 0 else 3)


MANY = """
import gc, os, signal, sys, time, torch
from torch import nn
import cockpit

def parts():
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.05), nn.CrossEntropyLoss()

def train(model, optimizer, loss_fn, steps=100):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(model(torch.randn(8, 8)), torch.randint(3, (8,))).backward()
        optimizer.step()

def main():
    model, optimizer, loss_fn = parts()
    pit = cockpit.watch(model, optimizer, loss_fn, every=1, run=sys.argv[1])
    train(model, optimizer, loss_fn)
    {inside}
main()
{after}
"""


@pytest.mark.parametrize(
    ("inside", "after", "code"),
    [
        ("pass", "", 0),
        ("pass", "gc.collect(); time.sleep(1); os._exit(0)", 0),
        ("signal.raise_signal(signal.SIGINT)", "", -2),
        ("loss_fn(model(torch.randn(8, 8)), torch.randint(3, (8,))).backward()", "", 0),  # half a step more
        ("time.sleep(0.6); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", "", -15),
        ("time.sleep(0.6); os.kill(os.getpid(), signal.SIGKILL)", "", -9),
        ("time.sleep(0.6); os._exit(0)", "", 0),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_nothing_that_was_tracked_is_lost(tmp_path: Path, inside: str, after: str, code: int) -> None:
    (tmp_path / "train.py").write_text(MANY.format(inside=inside, after=after))
    done = python(tmp_path / "train.py", tmp_path / "run", cwd=tmp_path, PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == code, done.stderr
    run = StoredRun(tmp_path / "run")
    assert run.scalar("Loss").steps.tolist() == list(range(100))
    assert run.state != "finished"
    assert str(run.reason).startswith("ended without close")
    assert (run.step, run.metadata["lost"]) == (99, 0)


def test_a_step_is_on_disk_soon_though_none_follows(tmp_path: Path) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, every=1, run=tmp_path / "run"):
        train(model, optimizer, loss_fn, draw(*[8] * 40))
        end = time.monotonic() + 5.0
        while len(StoredRun(tmp_path / "run").scalar("Loss")) < 40:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize("steps", [1, 20, 777])
def test_the_last_step_is_the_last_step_everywhere(tmp_path: Path, steps: int) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, every=100, run=tmp_path / "run"):
        train(model, optimizer, loss_fn, draw(*[4] * steps))
    run, (info,) = StoredRun(tmp_path / "run"), runs(tmp_path)
    assert {run.step, info.step, summary(run)["step"], steps - 1} == {steps - 1}
    fleet = Fleet(tmp_path)
    assert ANSWERS["runs"](fleet, Query())["runs"][0]["step"] == steps - 1
    assert ANSWERS["deck"](fleet, Query(runs=("run",)))["runs"][0]["step"] == steps - 1


# ---- continued


def test_a_continued_run_replaces_what_it_does_again(tmp_path: Path) -> None:
    trained(tmp_path / "run", steps=6)
    first = StoredRun(tmp_path / "run").scalar("Loss")
    trained(tmp_path / "run", steps=5, first=4)
    run = StoredRun(tmp_path / "run")
    again = run.scalar("Loss")
    assert again.steps.tolist() == list(range(9))
    assert again.values[:4].tolist() == first.values[:4].tolist()
    assert again.values[4] == first.values[0]  # the same first batch, from the same weights
    assert run.state == "finished"


def test_a_continued_run_keeps_its_start(tmp_path: Path) -> None:
    whole, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer, batches = sgd(whole), draw(*[8] * 6)
    with watch(whole, optimizer, loss_fn, ["Distance"], run=tmp_path / "whole") as pit:
        train(whole, optimizer, loss_fn, batches)
    model = net()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, ["Distance"], run=tmp_path / "run"):
        train(model, optimizer, loss_fn, batches[:3])
    other = net(seed=5)  # a new process builds the model anew and loads its checkpoint
    other.load_state_dict(model.state_dict())
    optimizer = sgd(other)
    with watch(other, optimizer, loss_fn, ["Distance"], run=tmp_path / "run", step=3):
        train(other, optimizer, loss_fn, batches[3:])
    expected = [pit.get_output()[step]["Distance"] for step in range(6)]
    read = StoredRun(tmp_path / "run").output()
    assert [read[step]["Distance"] for step in range(6)] == expected


def test_a_start_that_was_never_kept_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cockpit"):
        trained(tmp_path / "run", steps=2, first=5, quantities=["Distance"])
    assert "start.pt is not there; Distance counts from step 5" in caplog.text
    assert StoredRun(tmp_path / "run").output()[5]["Distance"] == dict.fromkeys(dict(net().named_parameters()), 0.0)


def test_starting_over_in_the_same_folder_keeps_both_runs(tmp_path: Path) -> None:
    trained(tmp_path / "run", steps=6)
    trained(tmp_path / "run", steps=2)
    assert StoredRun(tmp_path / "run").scalar("Loss").steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert StoredRun(tmp_path / "run-2").scalar("Loss").steps.tolist() == [0, 1]


def test_resuming_from_the_beginning_shows_the_new_steps(tmp_path: Path) -> None:
    trained(tmp_path / "run", steps=6)
    trained(tmp_path / "run", steps=2, resume=True)
    assert StoredRun(tmp_path / "run").scalar("Loss").steps.tolist() == [0, 1]
    trained(tmp_path / "run", steps=2, first=7, resume=False)
    assert StoredRun(tmp_path / "run-2").scalar("Loss").steps.tolist() == [7, 8]


# ---- what it says


LINE = """
import os, sys, torch
from torch import nn
import cockpit
for name in sys.argv[1:]:
    model = nn.Linear(3, 2)
    cockpit.watch(model, torch.optim.SGD(model.parameters(), lr=0.1), run=None if name == "-" else name).close()
"""


@pytest.mark.parametrize(
    ("runs", "environment", "said"),
    [
        (["-", "-"], {}, 1),
        (["else where/a"], {}, 1),
        (["-"], {"COCKPIT_QUIET": "1"}, 0),
        (["-"], {"RANK": "1"}, 0),
    ],
)
def test_one_line_a_process(tmp_path: Path, runs: list[str], environment: dict[str, str], said: int) -> None:
    (tmp_path / "train.py").write_text(LINE)
    quiet = {"COCKPIT_QUIET": "", "COCKPIT_RUNS": "", "PYTHONPATH": str(ROOT / "src")}
    done = python(tmp_path / "train.py", *runs, cwd=tmp_path, **(quiet | environment))
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (0, "", said), done.stderr
    if said:
        assert lines[0].startswith("cockpit records to ")
        assert lines[0].endswith("cockpit ui" if runs[0] == "-" else "cockpit ui 'else where'")


# ---- trouble


def test_writing_changes_no_weight(tmp_path: Path) -> None:
    plain, loss_fn = net(), nn.CrossEntropyLoss()
    train(plain, sgd(plain), loss_fn, draw(*[8] * 6))
    assert same_weights(plain, trained(tmp_path / "run", quantities="full"))


def test_a_folder_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("mine")
    with caplog.at_level(logging.WARNING, "cockpit"):
        model = trained(tmp_path / "file" / "run")
    assert same_weights(model, trained(False))
    assert "file" in caplog.text
    assert (tmp_path / "file").read_text() == "mine"


def test_two_watches_in_one_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, run=tmp_path / "run"), caplog.at_level(logging.WARNING, "cockpit"):
        train(model, optimizer, loss_fn, draw(4, 4))
        trained(tmp_path / "run", steps=3)
        train(model, optimizer, loss_fn, draw(4))
    assert StoredRun(tmp_path / "run").scalar("Loss").steps.tolist() == [0, 1, 2]
    assert len(StoredRun(tmp_path / "run-2").scalar("Loss")) == 3
    assert "run-2" in caplog.text


def test_a_folder_that_is_deleted_during_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with caplog.at_level(logging.WARNING, "cockpit"), watch(model, optimizer, loss_fn, run=tmp_path / "run") as pit:
        train(model, optimizer, loss_fn, draw(4, 4))
        shutil.rmtree(tmp_path / "run")
        train(model, optimizer, loss_fn, draw(4, 4))
    assert "deleted" in caplog.text
    assert list(pit.get_output()) == [0, 1, 2, 3]


def test_the_folder_is_known_though_the_disk_is_in_trouble(tmp_path: Path) -> None:
    model = net()
    with watch(model, sgd(model), run=tmp_path / "run") as pit:
        shutil.rmtree(tmp_path / "run")
    assert pit.folder == tmp_path / "run"
    with watch(model, sgd(model), run=tmp_path / "run" / "none") as pit:
        pass
    (tmp_path / "file").touch()
    with watch(model, sgd(model), run=tmp_path / "file" / "run") as pit:
        assert pit.folder is None


def test_a_foreign_file_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trained(tmp_path / "run", steps=1)
    database = tmp_path / "run" / "run.db"
    database.write_bytes(b"not a database" * 100)
    with caplog.at_level(logging.WARNING, "cockpit"):
        trained(tmp_path / "run", steps=2)
    assert database.read_bytes().startswith(b"not a database")
    assert len(StoredRun(tmp_path / "run-2").scalar("Loss")) == 2


def test_what_is_logged_after_the_end_is_said_to_be_in_memory_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pit = watched(draw(4), run=tmp_path / "run")
    with caplog.at_level(logging.WARNING, "cockpit"):
        pit.log(accuracy=0.5)
    assert pit.get_output()[0]["accuracy"] == 0.5
    assert "closed" in caplog.text


def test_a_disabled_watch_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_DISABLED", "1")
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path))
    trained(None)
    assert list(tmp_path.iterdir()) == []


def test_open_run_needs_no_torch(tmp_path: Path) -> None:
    trained(tmp_path / "run", steps=3)
    code = "import sys, cockpit; print(len(cockpit.open_run(sys.argv[1])['Loss'])); assert 'torch' not in sys.modules"
    done = python("-c", code, tmp_path / "run", cwd=tmp_path, PYTHONPATH=str(ROOT / "src"))
    assert done.stdout.split() == ["3"], done.stderr
    assert np.isfinite(cockpit.open_run(tmp_path / "run")["Loss"].values).all()
