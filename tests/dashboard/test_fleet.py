from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from tests.dashboard.runs import frame, write

from cockpit import store
from cockpit.core.errors import CockpitError
from cockpit.dashboard import fleet as module
from cockpit.dashboard.fleet import Fleet


def test_runs_are_held_in_the_order_asked_for(folder: Path) -> None:
    fleet = Fleet(folder)
    with fleet.reading(["sweep/second", "first", "sweep/second"]) as held:
        assert [run.name for run in held] == ["second", "first"]


def test_two_requests_in_opposite_order_do_not_wait_for_each_other(folder: Path) -> None:
    fleet, done = Fleet(folder), []

    def ask(idents: list[str]) -> None:
        for _ in range(30):
            with fleet.reading(idents):
                pass
        done.append(idents)

    threads = [
        threading.Thread(target=ask, args=(order,), daemon=True)
        for order in (["first", "bad"], ["bad", "first"], ["first", "empty", "bad"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(done) == 3


def test_an_unknown_run_is_not_opened(folder: Path) -> None:
    with pytest.raises(LookupError, match="no run"), Fleet(folder).reading(["../" + folder.name + "/first"]):
        pass


def test_too_many_runs_are_refused(folder: Path) -> None:
    with pytest.raises(CockpitError, match="at most"), Fleet(folder).reading([str(n) for n in range(100)]):
        pass


def test_a_pulse_tells_new_records_from_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTED", 0.0)
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    writer = store.create(tmp_path / "run", {"name": "run"})
    fleet = Fleet(tmp_path)
    with fleet.reading(["run"]):
        pass
    listed, shown, _ = fleet.pulse()
    assert (set(listed), set(shown)) == ({"run"}, {"run"})
    assert fleet.pulse()[1] == shown
    writer.append(frame(0))
    writer.close()
    after = fleet.pulse()
    assert after[1]["run"] != shown["run"]
    assert after[0] != listed


def test_few_runs_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN", 2)
    for name in "abc":
        write(tmp_path / name, steps=range(2))
    fleet = Fleet(tmp_path)
    for name in "abc":
        with fleet.reading([name]) as (run,):
            assert run.last_step == 1
    assert set(fleet.pulse()[1]) == {"b", "c"}


def test_a_run_deleted_since_the_last_listing_is_gone_not_wrong(tmp_path: Path) -> None:
    there = [write(tmp_path / name, steps=range(2)) for name in ("open", "closed")]
    fleet = Fleet(tmp_path)
    with fleet.reading(["open"]):
        pass

    def delete_while_reading() -> None:
        with fleet.reading(["open"]) as (run,):
            shutil.rmtree(there[0])
            run.histogram("GradHist1d", 1)

    with pytest.raises(LookupError, match="moved or deleted"):
        delete_while_reading()
    shutil.rmtree(there[1])
    for name in ("closed", "open"):
        with pytest.raises(LookupError, match="moved or deleted"), fleet.reading([name]):
            pass


def test_a_deleted_run_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTED", 0.0)
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    there = write(tmp_path / "run", steps=range(2))
    fleet = Fleet(tmp_path)
    with fleet.reading(["run"]):
        pass
    for file in there.iterdir():
        file.unlink()
    there.rmdir()
    assert fleet.pulse()[:2] == ({}, {})
    with pytest.raises(LookupError), fleet.reading(["run"]):
        pass
