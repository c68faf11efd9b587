"""What happens to a run when the disk, the folder or the process fails; the training never notices."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.store.contract import loss, until

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import StoredRun, create, pump
from cockpit.store import queue as queues
from cockpit.store.layout import Packer

PRELUDE = """
import os, sys, time
from pathlib import Path
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import StoredRun, create
folder = Path(sys.argv[1])
def loss(step): return Record(step, "Loss", Kind.SCALAR, float(step))
"""
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


pytestmark = pytest.mark.usefixtures("backend")


def python(code: str, folder: Path, fails: bool = False) -> str:
    """Run a program; returns what it printed and logged."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c"]  # Python 3.12 warns of a fork beside threads
    done = subprocess.run([*command, PRELUDE + code, str(folder)], capture_output=True, encoding="utf-8", timeout=60)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout + done.stderr


def steps(folder: Path) -> list[int]:
    found: list[int] = StoredRun(folder).scalar("Loss").steps.tolist()
    return found


# ---- how a process ends


def test_a_process_that_ends_without_closing_is_flushed(folder: Path) -> None:
    python("writer = create(folder); writer.append([loss(0)]); writer.append([loss(1)])", folder)
    run = StoredRun(folder)
    assert (run.state, run.reason, steps(folder)) == ("ended", "ended without close", [0, 1])


def test_an_uncaught_exception_is_the_reason(folder: Path) -> None:
    code = "writer = create(folder); writer.append([loss(0)]); raise RuntimeError('CUDA out of memory')"
    assert "RuntimeError" in python(code, folder, fails=True)
    run = StoredRun(folder)
    assert (run.state, run.reason) == ("crashed", "ended without close: RuntimeError: CUDA out of memory")
    assert steps(folder) == [0]


def test_a_process_that_is_gone_has_crashed(folder: Path) -> None:
    code = "writer = create(folder); writer.append([loss(0)]); writer.step = 7; time.sleep(1.8); os._exit(3)"
    python(code, folder, fails=True)
    run = StoredRun(folder)
    assert (run.state, run.reason, run.reached) == ("crashed", "ended without close", 7)
    create(folder, {"git": None}, 8).close()
    run.refresh()
    assert [attempt["state"] for attempt in run.metadata["attempts"]] == ["crashed", "finished"]
    assert run.metadata["attempts"][0]["reached"] == 7


def test_the_thread_does_not_keep_the_process_alive(folder: Path) -> None:
    begin = time.monotonic()
    python("import threading; writer = create(folder)", folder)
    assert time.monotonic() - begin < 5


def test_a_writer_nobody_holds_is_flushed(folder: Path) -> None:
    writer = create(folder, {"git": None})
    writer.append([loss(0)])
    del writer
    gc.collect()
    run, end = StoredRun(folder), time.monotonic() + 5
    while run.state == "running" and time.monotonic() < end:
        time.sleep(0.02)
        run.refresh()
    assert (run.state, run.reason) == ("ended", "ended without close")
    assert steps(folder) == [0]


def test_closing_twice_and_writing_after_it_are_harmless(folder: Path) -> None:
    writer = create(folder, {"git": None})
    writer.close("crashed", "first")
    writer.close("finished")
    writer.append([loss(0)])
    writer.update(name="late")
    writer.step = 3
    assert StoredRun(folder).reason == "first"
    assert writer.lost == 1


# ---- forks


@posix
def test_a_forked_child_leaves_the_run_alone(folder: Path) -> None:
    """The child does everything wrong that it can, and ends in an orderly way; the parent goes on meanwhile."""
    code = """
writer = create(folder)
for step in range(200):
    writer.append([loss(step)])
    if step % 40 == 20:
        child = os.fork()
        if not child:
            for other in range(1000, 1200): writer.append([loss(other)])
            writer.step = 1000; writer.update(name="child"); writer.close("crashed", "child")
            sys.exit(0)
        os.waitpid(child, 0)
    time.sleep(0.005)
run = StoredRun(folder)
print(run.state)
writer.close()
"""
    assert python(code, folder) == "running\n"
    run = StoredRun(folder)
    assert (run.state, run.name, run.damaged) == ("finished", "run", None)
    assert steps(folder) == list(range(200))
    assert run.metadata["lost"] == 0


@posix
def test_a_child_that_lives_longer_does_not_hold_the_lock(folder: Path) -> None:
    code = """
writer = create(folder)
writer.append([loss(0)])
time.sleep(0.5)
if not os.fork():
    os.close(1); os.close(2)
    time.sleep(3)
os._exit(0)
"""
    python(code, folder)
    assert StoredRun(folder).state == "crashed"


# ---- two writers


def test_two_processes_never_share_a_folder(folder: Path) -> None:
    holder = create(folder, {"git": None})
    holder.append([loss(0)])
    told = python("writer = create(folder); writer.append([loss(5)]); print(writer.folder); writer.close()", folder)
    assert f"being written by process {os.getpid()}" in told
    assert str(folder.with_name("run-2")) in told
    holder.append([loss(1)])
    holder.close()
    assert (steps(folder), steps(folder.with_name("run-2"))) == ([0, 1], [5])


def test_a_third_writer_gets_a_folder_of_its_own(folder: Path) -> None:
    writers = [create(folder, {"git": None}) for _ in range(3)]
    assert [writer.folder.name for writer in writers] == ["run", "run-2", "run-3"]
    for writer in writers:
        writer.close()
    again = create(folder, {"git": None})
    again.close()
    assert again.folder.name == "run", "free again"


def test_readers_that_look_at_the_lock_do_not_keep_a_writer_out(folder: Path) -> None:
    code = "run = StoredRun(folder); end = time.time() + 2\nwhile time.time() < end: run.refresh()"
    create(folder, {"git": None}).close()
    lookers = [subprocess.Popen([sys.executable, "-c", PRELUDE + code, str(folder)]) for _ in range(2)]
    time.sleep(0.8)
    for _ in range(10):
        writer = create(folder, {"git": None})
        writer.close()
        assert writer.folder == folder
    assert [looker.wait() for looker in lookers] == [0, 0]


def test_continuing_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cockpit")
    writer = create(folder, {"git": None})
    writer.append([loss(41)])
    writer.close()
    assert caplog.text == ""
    create(folder, {"git": None}, 42).close()
    assert "recorded up to step 41, from step 42" in caplog.text
    create(folder, {"git": None}).close()
    assert "begins again at step 0" in caplog.text


def test_what_is_there_decides_the_backend(folder: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create(folder, {"git": None}).close()
    monkeypatch.setenv("COCKPIT_STORE", "file" if backend == "sqlite" else "sqlite")
    before = sorted(folder.iterdir())
    create(folder, {"git": None}).close()
    assert sorted(folder.iterdir()) == before


# ---- a folder that cannot be written


@pytest.mark.parametrize("place", ["file/run", "x" * 300, "nul\0l"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("a file, not a folder")
    writer = create(tmp_path / place, {"name": "x"})
    writer.append([loss(0), loss(1)])
    writer.step = 1
    writer.update(cost=1)
    writer.close()
    assert "cannot write the run to" in str(writer.problem)
    assert writer.lost == 2
    assert len(caplog.records) == 1
    assert "choose a folder" in caplog.text


@posix
@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="the folder nobody can write to is in /proc")
def test_a_read_only_folder(caplog: pytest.LogCaptureFixture) -> None:
    """Root may write anywhere but here."""
    writer = create("/proc/self", {"name": "x"})
    writer.append([loss(0)])
    writer.close()
    assert writer.problem is not None
    assert "Training goes on" in caplog.text


@posix
def test_a_folder_without_write_access(folder: Path) -> None:
    writer = create(folder, {"git": None})
    writer.append([loss(0)])
    writer.close()
    folder.chmod(0o500)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("permissions do not bind this user")
        for path in folder.iterdir():
            path.chmod(0o400)
        assert steps(folder) == [0]
        assert "Permission denied" in str(create(folder, {"git": None}).problem)
    finally:
        folder.chmod(0o700)


# ---- a disk that fails


LIMITED = """
import resource, logging
writer = create(folder, {"git": None})
for step in range(100): writer.append([loss(step)])
time.sleep(0.5)
size = max(path.stat().st_size for path in folder.iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
slowest = 0
for step in range(100, 2000):
    records = [loss(step)]
    begin = time.perf_counter(); writer.append(records); slowest = max(slowest, time.perf_counter() - begin)
time.sleep(1)
assert writer.problem and not writer.lost, (writer.problem, writer.lost)
"""


@posix
def test_a_full_disk_that_has_room_again(folder: Path) -> None:
    """A limit on the size of files stands in for a full disk: every user may set one."""
    code = """
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
end = time.time() + 20
while writer.problem and time.time() < end: time.sleep(0.1)
writer.close()
"""
    told = python(LIMITED + code, folder)
    assert told.count("cannot write the run") == 1
    assert "free disk space" in told
    assert "works again; no record was lost" in told
    assert steps(folder) == list(range(2000))


@posix
def test_a_disk_that_stays_full(folder: Path) -> None:
    told = python(LIMITED + "writer.close('crashed', 'enough'); assert writer.lost == 1900, writer.lost", folder)
    assert "1900 records were lost" in told
    run = StoredRun(folder)
    assert steps(folder) == list(range(100))
    assert (run.state, run.reason, run.damaged) == ("crashed", "enough", None)
    assert run.metadata["lost"] == 1900


def test_a_disk_that_hangs_costs_no_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queues, "RECORDS", 100)
    writer = create(folder, {"git": None})
    pump = writer._pump
    assert pump is not None
    write = pump._file.write
    hangs = True

    def hanging(items: object) -> None:
        if hangs:
            raise OSError(5, "Input/output error")
        write(items)  # type: ignore[arg-type]

    monkeypatch.setattr(pump._file, "write", hanging)
    writer.append([loss(0)])
    time.sleep(0.4)
    for step in range(1, 1001):
        writer.append([loss(step)])
    assert writer.lost == 900
    hangs = False
    writer.close()
    assert steps(folder) == [0, *range(901, 1001)], "the oldest in the queue are dropped"
    assert "900 records were lost" in caplog.text
    assert StoredRun(folder).metadata["lost"] == 900


def test_a_folder_that_is_deleted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = create(folder, {"git": None})
    writer.append([loss(0)])
    until(StoredRun(folder), 0)
    shutil.rmtree(folder)
    for step in range(1, 4):
        writer.append([loss(step)])
        time.sleep(0.3)
    writer.close()
    assert "was deleted" in str(writer.problem)
    assert writer.lost == 3
    assert not folder.exists()
    assert sum("was deleted" in record.message for record in caplog.records) == 1


def test_a_folder_that_is_replaced_by_another_run(folder: Path) -> None:
    first = create(folder, {"git": None})
    first.append([loss(0)])
    run = StoredRun(folder)
    until(run, 0)
    shutil.rmtree(folder)
    second = create(folder, {"git": None})
    second.append([loss(7)])
    first.append([loss(1)])
    until(run, 7)
    first.close()
    second.close()
    assert second.folder == folder
    assert steps(folder) == [7]


def test_the_training_thread_hardly_waits(folder: Path) -> None:
    records = [Record(0, f"s{i}", Kind.SCALAR, 0.5) for i in range(20)]
    writer, took = create(folder, {"git": None}), []
    for _ in range(500):
        begin = time.perf_counter()
        writer.append(records)
        took.append(time.perf_counter() - begin)
    writer.close()
    assert sorted(took)[250] < 100e-6


@pytest.mark.parametrize("moments", [(2,), (2, 3), (1, 2)])
def test_a_lack_of_memory_that_passes_costs_nothing(
    tmp_path: Path, moments: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, calls = create(tmp_path / "run", {"git": None}), {"write": 0, "pack": 0}

    def failing(name: str, call: Any) -> Any:
        def called(*given: Any) -> Any:
            calls[name] += 1
            if calls[name] in moments:
                raise MemoryError
            return call(*given)

        return called

    monkeypatch.setattr(writer._pump._file, "write", failing("write", writer._pump._file.write))
    monkeypatch.setattr(Packer, "pack", failing("pack", Packer.pack))
    for step in range(20):
        writer.append([loss(step)])
        time.sleep(0.05)
    writer.close()
    run = StoredRun(tmp_path / "run")
    assert (run.scalar("Loss").steps.tolist(), writer.lost) == (list(range(20)), 0)
    assert (run.state, run.damaged) == ("finished", None)


@pytest.mark.parametrize("moment", range(1, 100, 7))
def test_memory_may_be_lacking_wherever_the_thread_is(
    tmp_path: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th call of a function of ours in the writing thread fails."""
    monkeypatch.setattr(pump, "INTERVAL", 0.003)
    monkeypatch.setattr(pump, "SLOWEST", 0.01)
    calls = 0

    def lacking(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        ours = threading.current_thread().name == "cockpit-store" and "cockpit" in frame.f_code.co_filename
        if ours and frame.f_code.co_name not in ("_run", "_bearing"):  # which bear it
            calls += 1
            if calls == moment:
                raise MemoryError

    threading.settrace(lacking)
    try:
        writer = create(tmp_path / "run", {"git": None, "kept": "too"})
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    for step in range(8):
        writer.append([loss(step)])
        time.sleep(0.005)
    writer.close()
    run = StoredRun(tmp_path / "run")
    assert calls >= moment, "it did lack"
    assert (run.scalar("Loss").steps.tolist(), writer.lost, run.metadata["lost"]) == (list(range(8)), 0, 0)
    assert (run.state, run.damaged, run.metadata["kept"]) == ("finished", None, "too")


def test_a_run_that_is_not_resumed_goes_beside_the_one_there(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cockpit")
    for number in range(3):
        writer = create(folder, {"git": None}, resume=False)
        writer.append([loss(step) for step in range(5 - number)])
        writer.close()
    assert [len(steps(folder.with_name(name))) for name in ("run", "run-2", "run-3")] == [5, 4, 3]
    assert f"{folder} holds a run already; this run goes to {folder.with_name('run-3')}" in caplog.text


def test_a_run_without_a_record_is_not_missed(folder: Path) -> None:
    create(folder, {"git": None}).close()
    writer = create(folder, {"git": None}, resume=False)
    writer.close()
    assert writer.folder == folder
