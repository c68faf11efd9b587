from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.contract import loss, until

from cockpit.store import StoredRun, create, lock
from cockpit.store.lock import Busy, Lock, Pulse

PULSE = Pulse(1, os.getpid(), lock.host(), 0.0, 5)


def test_one_at_a_time(tmp_path: Path) -> None:
    first = Lock(tmp_path)
    first.beat(PULSE)
    assert lock.alive(tmp_path, PULSE) is True
    with pytest.raises(Busy, match=f"process {os.getpid()}"):
        Lock(tmp_path)
    first.close()
    assert lock.alive(tmp_path, PULSE) is False
    Lock(tmp_path).close()


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be deleted on Windows")
def test_a_lock_that_is_deleted_while_one_waits_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, sleep = Lock(tmp_path), time.sleep

    def meanwhile(seconds: float) -> None:
        if first._file >= 0:
            (tmp_path / lock.NAME).unlink()
            first.close()
        sleep(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", meanwhile)
        second = Lock(tmp_path)
    with pytest.raises(Busy):
        Lock(tmp_path)
    second.close()


def test_the_pulse_comes_back(tmp_path: Path) -> None:
    held = Lock(tmp_path)
    assert lock.pulse(tmp_path) is None
    for pulse in (PULSE, replace(PULSE, state="crashed", reason="x" * 5000), replace(PULSE, reason="\ud800" * 500)):
        held.beat(pulse)
        found = lock.pulse(tmp_path)
        assert found is not None
        assert replace(found, reason=None) == replace(pulse, reason=None)
        assert str(pulse.reason).startswith(str(found.reason))
    assert (tmp_path / lock.NAME).stat().st_size == lock.PULSE
    held.close()


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 1024, b"[]", b'{"other": 1}'])
def test_a_damaged_pulse_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / lock.NAME).write_bytes(content)
    assert lock.pulse(tmp_path) is None
    Lock(tmp_path).close()


def test_where_locks_do_not_work_the_pulse_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_try", lambda file, exclusive: None)
    first = Lock(tmp_path)
    first.beat(replace(PULSE, time=time.time()))
    with pytest.raises(Busy):
        Lock(tmp_path)
    first.beat(replace(PULSE, time=time.time(), state="finished"))
    Lock(tmp_path).close()
    first.close()


def test_a_silent_run_is_stale(tmp_path: Path) -> None:
    """A run of another machine shows only its pulse; here one that is young, then old."""
    writer = create(tmp_path / "run", {"git": None})
    writer.append([loss(0)])
    run = StoredRun(tmp_path / "run")
    until(run, 0)
    pump = writer._pump
    assert pump is not None
    pump.forget()  # as if the process were gone
    path = tmp_path / "run" / lock.NAME
    away = Lock(tmp_path / "run")
    away.beat(Pulse(1, 1, "another-host", time.time(), 3))
    away.close()
    run.refresh()
    assert (run.state, run.reached) == ("running", 3)
    away = Lock(tmp_path / "run")
    away.beat(Pulse(1, 1, "another-host", time.time() - 100, 3))
    away.close()
    os.utime(path, (time.time() - 100, time.time() - 100))
    assert run.refresh()
    assert run.state == "stale"
    assert "no sign of life for" in str(run.reason)


def test_a_held_lock_without_a_pulse_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "STALE", 0.5)
    writer = create(tmp_path / "run", {"git": None})
    pump = writer._pump
    assert pump is not None
    monkeypatch.setattr(pump, "_beat", lambda *_: None)
    run = StoredRun(tmp_path / "run")
    assert run.state == "running"
    time.sleep(0.7)
    run.refresh()
    assert run.state == "stale"
    writer.close()
    run.refresh()
    assert run.state == "finished"
