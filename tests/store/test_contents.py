"""What a reader says about a run is never more than what it has read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.store.contract import loss, until

from cockpit.store import StoredRun, create
from cockpit.store.item import Attempt, News
from cockpit.store.lock import Lock
from cockpit.store.opening import open_folder

pytestmark = pytest.mark.usefixtures("backend")


def write(folder: Path, steps: range, first: int = 0) -> None:
    writer = create(folder, {"git": None}, first)
    for step in steps:
        writer.append([loss(step)])
        writer.step = step + 1
    writer.close()


def steps(run: StoredRun) -> list[int]:
    found: list[int] = run.scalar("Loss").steps.tolist()
    return found


def test_a_run_that_ends_while_it_is_read_is_not_finished_before_all_is_there(folder: Path) -> None:
    writer = create(folder, {"git": None})
    run = StoredRun(folder)
    writer.append([loss(0)])
    until(run, 0)
    reader, news = run._contents.reader, run._contents.reader.news

    def slow(growing: bool = False) -> News:
        found = news(growing)
        if run.last_step == 0:
            writer.append([loss(step) for step in range(2, 100)])
            writer.close()
        return found

    reader.news = slow  # type: ignore[method-assign]
    writer.append([loss(1)])
    while run.state == "running":
        run.refresh()
        assert run.state == "running" or len(steps(run)) == 100
    assert run.state == "finished"


def test_a_run_that_has_only_just_begun_is_running(folder: Path) -> None:
    """Between the making of its file and the first pulse."""
    found = open_folder(folder, 0)
    assert StoredRun(folder).state == "running"
    found.abandon()


def test_a_run_that_is_continued_is_running_before_its_first_pulse(folder: Path) -> None:
    write(folder, range(3))
    found = open_folder(folder, 3)
    found.file.write([Attempt(2, 3, time.time())])
    run = StoredRun(folder)
    assert (run.state, run.damaged) == ("running", None)
    found.file.close()
    found.lock.close()
    run.refresh()
    assert run.state == "crashed"


def test_an_emptied_file_is_damaged(folder: Path) -> None:
    write(folder, range(20))
    path = StoredRun(folder)._contents.reader.path
    path.write_bytes(b"")
    run = StoredRun(folder)
    assert run.state == "finished"
    assert run.damaged == f"{path.name}: 20 records were written, 0 are there"
    write(folder, range(20, 22), 20)
    run = StoredRun(folder)
    assert steps(run) == [20, 21]
    assert run.damaged == f"{path.name}: 22 records were written, 2 are there"
    assert [attempt["id"] for attempt in run.metadata["attempts"]] == [1, 2]


def test_an_emptied_file_of_a_run_without_records_is_damaged(folder: Path) -> None:
    create(folder, {"git": None}).close()
    path = StoredRun(folder)._contents.reader.path
    assert StoredRun(folder).damaged is None
    path.write_bytes(b"")
    assert StoredRun(folder).damaged == f"{path.name}: the last attempt is missing"


def test_a_deleted_file_is_forgotten(folder: Path) -> None:
    """Who deletes the records but not the lock does not want to hear of them any more."""
    write(folder, range(20))
    path = StoredRun(folder)._contents.reader.path
    for rest in folder.glob(f"{path.name}*"):
        rest.unlink()
    write(folder, range(2))
    run = StoredRun(folder)
    assert (run.damaged, steps(run), len(run.metadata["attempts"])) == (None, [0, 1], 1)


def test_records_are_not_missed_before_they_are_written(folder: Path) -> None:
    writer = create(folder, {"git": None})
    run, end, step = StoredRun(folder), time.monotonic() + 2.5, 0
    while time.monotonic() < end:
        writer.append([loss(step)])
        step += 1
        run.refresh()
        assert run.damaged is None
        time.sleep(0.005)
    writer.close()
    assert run.refresh()
    assert (run.damaged, len(steps(run))) == (None, step)


# ---- continuing


@pytest.mark.parametrize("end", ["closed", "running", "killed"])
def test_a_shorter_continuation_hides_only_the_steps_it_has_done(folder: Path, end: str) -> None:
    write(folder, range(20))
    code = """
import os, sys, time
from cockpit.store import StoredRun, create
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
writer = create(sys.argv[1], {"git": None}, 10)
for step in range(10, 15):
    writer.append([Record(step, "Loss", Kind.SCALAR, 100.0)] if step != 14 else [])
    writer.step = step + 1
end = time.monotonic() + 60
while StoredRun(sys.argv[1]).reached != 15 and time.monotonic() < end: time.sleep(0.05)
print("there", flush=True)
if sys.argv[2] == "closed": writer.close()
if sys.argv[2] == "killed": os._exit(9)
if sys.argv[2] == "running": sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(folder), end]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "there\n"
        if end != "running":
            other.wait()
        run = StoredRun(folder)
        other.communicate()
    assert run.state == {"closed": "finished", "killed": "crashed", "running": "running"}[end]
    assert steps(run) == [*range(14), *range(15, 20)], "step 14 was taken without a record, step 15 not yet"
    assert run.reached == 15


def test_a_lock_that_was_left_by_a_kill_does_not_matter(folder: Path) -> None:
    folder.mkdir()
    Lock(folder).close()
    assert os.listdir(folder) == ["run.lock"]
    write(folder, range(2))
    assert (steps(StoredRun(folder)), os.path.exists(folder.with_name("run-2"))) == ([0, 1], False)
