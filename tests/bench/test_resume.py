"""A run that is stopped anywhere and started again gives the numbers of one that was not, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.bench.tiny import losses, model, problem
from tests.running import ROOT
from torch import Tensor, nn

from cockpit.bench import checkpoint, origin, run
from cockpit.bench.live import Plain
from cockpit.bench.runner import train
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place
from cockpit.results import folder as results
from cockpit.results.result import Result
from cockpit.run import open_run
from cockpit.store import runs

PLACE = Place(Path("nowhere"), download=False)
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
import torch
from tests.bench import tiny
from cockpit.bench import origin, run
from cockpit.bench.runner import train
from cockpit.problems._base import Place

out, watch, torn = Path(sys.argv[1]), sys.argv[2] or None, int(sys.argv[3])
run.PAUSE = 0
origin.problem_mark = lambda problem: "the same"
saved, save = 0, torch.save

def torn_save(state, file):  # dies in the middle of the file
    global saved
    saved += 1
    save(state, file)
    if saved == torn:
        file.truncate(file.tell() // 2)
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

def losses(outputs, targets):
    time.sleep(0.004)
    return tiny.losses(outputs, targets)

if torn:
    torch.save = torn_save
torch.set_num_threads(1)
train(tiny.problem(losses=losses), "Adam", lr=0.01, epochs=12, out=out, watch=watch, every=3 if watch else None,
      place=Place(Path("nowhere")))
"""


@pytest.fixture(autouse=True)
def _one_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stops a run here is other code in its problem; elsewhere it is not."""
    monkeypatch.setattr(origin, "problem_mark", lambda problem: "the same")


@pytest.fixture(autouse=True)
def _kept_after_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PAUSE", 0.0)


def kept(made: list[nn.Module], seed: int) -> nn.Module:
    made.append(model(seed))
    return made[-1]


def same(one: Result, two: Result) -> bool:
    return one.curves == two.curves and one.batch_losses == two.batch_losses and one.complete and two.complete


class Stop(Exception):
    """The end of a process, as far as a test can have it in its own."""


def stopping(after: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Losses that raise after so many batches."""
    seen = []

    def call(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.append(None)
        if len(seen) > after:
            raise Stop
        return losses(outputs, targets)

    return call


# ---- in this process


@pytest.mark.parametrize("watch", [None, "economy"])
@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("Momentum", {"schedule": "cosine"}),
        ("Adam", {"schedule": partial(torch.optim.lr_scheduler.StepLR, step_size=1, gamma=0.5)}),
        ("AMSGrad", {"schedule": partial(torch.optim.lr_scheduler.MultiStepLR, milestones=[1, 3], gamma=0.5)}),
        ("LBFGS", {}),
        ("ScheduleFreeAdamW", {}),
    ],
)
def test_stopped_and_continued(tmp_path: Path, optimizer: str, options: dict[str, Any], watch: str | None) -> None:
    made: list[nn.Module] = []

    def go(name: str, task: Any) -> Result:
        every = 3 if watch else None
        return train(task, optimizer, lr=0.01, out=tmp_path / name, place=PLACE, watch=watch, every=every, **options)

    whole = go("whole", problem(model=partial(kept, made)))
    for after in (15, 30, 22):  # in the first epoch, an evaluation, the third epoch (but LBFGS takes more batches)
        with pytest.raises(Stop):
            go("parts", problem(losses=stopping(after)))
    (found,) = runs(tmp_path / "parts")
    assert found.state == "crashed"
    assert not results.read(found.path).complete
    continued = go("parts", problem(model=partial(kept, made)))
    assert same(whole, continued)
    for name, value in made[0].state_dict().items():
        assert torch.equal(value, made[1].state_dict()[name]), name
    (found,) = runs(tmp_path / "parts")
    assert found.state == "finished"
    recorded = open_run(found.path)
    assert recorded["test_loss"].values.tolist() == whole.curves["test_loss"]
    assert recorded["Loss"].steps.tolist() == list(range(0, 32, 1 if watch else 10))
    assert checkpoint.load(found.path) is None


def test_epochs_that_take_no_time_are_rather_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PAUSE", 60.0)
    whole = train(problem(), "SGD", lr=0.1, out=tmp_path / "whole", place=PLACE)
    with pytest.raises(Stop):
        train(problem(losses=stopping(50)), "SGD", lr=0.1, out=tmp_path / "parts", place=PLACE)
    assert list(tmp_path.rglob("state.pt")) == []
    assert same(whole, train(problem(), "SGD", lr=0.1, out=tmp_path / "parts", place=PLACE))


def stopped(out: Path) -> Path:
    with pytest.raises(Stop):
        train(problem(losses=stopping(40)), "SGD", lr=0.1, out=out, place=PLACE)
    return out / "tiny/SGD/lr_1e-01/seed_42"


def test_a_state_with_other_settings_is_refused(tmp_path: Path) -> None:
    stopped(tmp_path)
    with pytest.raises(CockpitError, match="other settings: log_interval was 10, is 5; give the same"):
        train(problem(), "SGD", lr=0.1, out=tmp_path, place=PLACE, log_interval=5)


def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    stopped(tmp_path)
    with pytest.raises(CockpitError, match="another model or optimizer"):
        train(problem(model=lambda seed: nn.Linear(4, 3)), "SGD", lr=0.1, out=tmp_path, place=PLACE)


def test_a_torn_state_is_refused_and_can_be_left_behind(tmp_path: Path) -> None:
    state = stopped(tmp_path) / ".resume" / "state.pt"
    state.write_bytes(state.read_bytes()[:500])
    with pytest.raises(CockpitError, match=r"state.pt cannot be read .*--again"):
        train(problem(), "SGD", lr=0.1, out=tmp_path, place=PLACE)
    assert train(problem(), "SGD", lr=0.1, out=tmp_path, place=PLACE, resume=False).complete


def test_again_forgets_what_was_there(tmp_path: Path) -> None:
    folder = stopped(tmp_path)
    other = problem(losses=stopping(0))
    with pytest.raises(Stop):
        train(other, "SGD", lr=0.1, out=tmp_path, place=PLACE, resume=False)
    assert checkpoint.load(folder) is None
    assert checkpoint.read_result(folder) is None


def test_only_one_process_writes_to_a_folder(tmp_path: Path) -> None:
    folder = stopped(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "run.lock"}
    with checkpoint.alone(folder), pytest.raises(CockpitError, match=f"being written by process {os.getpid()} on"):
        train(problem(), "SGD", lr=0.1, out=tmp_path, place=PLACE)
    assert {path: path.read_bytes() for path in before} == before
    assert [path.name for path in folder.parent.iterdir()] == ["seed_42"]
    assert train(problem(), "SGD", lr=0.1, out=tmp_path, place=PLACE).complete


# ---- processes that are killed


def start(out: Path, watch: str, torn: int = 0) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(out), watch, str(torn)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))},
    )


def killed_in_epoch(process: subprocess.Popen[bytes], folder: Path, epochs: int) -> None:
    """Kill a process some time after so many epochs were judged."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if (folder / results.NAME).is_file() and len(results.read(folder).curves["train_loss"]) > epochs:
            time.sleep(0.02)
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("watch", ["", "economy"])
def test_killed_again_and_again(tmp_path: Path, watch: str) -> None:
    """In the middle of an epoch; then where it goes on from, in the middle of writing its state; then to the end."""
    options: dict[str, Any] = {"lr": 0.01, "epochs": 12, "place": PLACE}
    whole = train(problem(), "Adam", out=tmp_path / "whole", **options)
    folder = next((tmp_path / "whole").rglob(results.NAME)).parent
    folder = tmp_path / "parts" / folder.relative_to(tmp_path / "whole")
    killed_in_epoch(start(tmp_path / "parts", watch), folder, 3)
    reached = len(results.read(folder).curves["train_loss"])
    assert 4 <= reached <= 12
    assert start(tmp_path / "parts", watch, torn=2).wait(60) == -signal.SIGKILL
    assert list((folder / ".resume").glob(".*.part.pt"))  # what it was writing
    assert len(results.read(folder).curves["train_loss"]) == reached + 1
    every = 3 if watch else None
    assert same(whole, train(problem(), "Adam", out=tmp_path / "parts", watch=watch or None, every=every, **options))
    assert sorted(path.name for path in (folder / ".resume").iterdir()) == ["run.lock"]
    assert open_run(folder)["test_loss"].values.tolist() == whole.curves["test_loss"]


def test_all_values_are_recorded_before_a_run_counts_as_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    log, write = Plain.log, results.write
    monkeypatch.setattr(Plain, "log", lambda self, step, found: (done.append("log"), log(self, step, found)))
    monkeypatch.setattr(results, "write", lambda result, folder: (done.append("write"), write(result, folder)))
    train(problem(), "SGD", lr=0.1, epochs=2, out=tmp_path, place=PLACE)
    assert done[-2:] == ["log", "write"]
