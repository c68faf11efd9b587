"""A changed byte in a database costs what it is in, and is noticed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.store.contract import flat, loss

from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import StoredRun, create
from cockpit.store.export import export

STEPS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = create(tmp_path / "run", {"git": None, "model": {"class": "an unusual text"}})
    for step in range(STEPS):
        value = {"0.weight": 0.5, "0.bias": float(step)}
        histogram = Record(step, "H", Kind.HISTOGRAM, flat(step) if step != 5 else None, None if step != 5 else "none")
        writer.append([loss(step), histogram])
        writer.append([Record(step, "Norm", Kind.PER_PARAMETER, value)])
    writer.close()
    return tmp_path / "run"


def change(folder: Path, text: bytes, to: Callable[[int], int] = lambda byte: byte ^ 1) -> None:
    """Change a byte in the middle of a text, wherever it is in the file."""
    path = folder / "run.db"
    data = bytearray(path.read_bytes())
    assert data.count(text) > 0, text
    at = data.find(text) + len(text) // 2
    data[at] = to(data[at])
    path.write_bytes(data)


def tail_of(folder: Path, step: int) -> bytes:
    with closing(sqlite3.connect(f"{(folder / 'run.db').as_uri()}?immutable=1", uri=True)) as database:
        question = "SELECT tail FROM frames WHERE step = ? AND tail IS NOT NULL"
        (found,) = database.execute(question, (step,)).fetchone()
        assert isinstance(found, bytes)
        return found


def others(step: int) -> list[int]:
    return [other for other in range(STEPS) if other not in (5, step)]


def test_a_damaged_tail_costs_only_its_histogram(folder: Path, tmp_path: Path) -> None:
    change(folder, tail_of(folder, 7))
    assert StoredRun(folder).damaged == "1 record is damaged and left out"
    run = StoredRun(folder)
    assert run.counted("H").tolist() == others(7)
    assert all(run.histogram("H", step) == flat(step) for step in run.counted("H").tolist())
    assert run.reasons("H") == {"damaged": [7], "none": [5]}
    assert run.damaged == "1 record is damaged and left out"
    assert run.scalar("Loss").values.tolist() == list(range(STEPS)), "the numbers of the frame are unharmed"
    with pytest.raises(CockpitError, match="no histogram"):
        run.histogram("H", 7)
    assert StoredRun(folder).output()[7] == {"Loss": 7.0, "H": None, "Norm": {"0.weight": 0.5, "0.bias": 7.0}}
    assert sum(1 for _ in StoredRun(folder).records()) == 3 * STEPS
    for target in ("csv", "json"):
        assert export(StoredRun(folder), target, tmp_path / target)


def test_a_tail_that_is_damaged_after_it_was_checked(folder: Path) -> None:
    run = StoredRun(folder)
    assert len(run.counted("H")) == STEPS - 1
    change(folder, tail_of(folder, 7))
    with pytest.raises(CockpitError, match="damaged"):
        run.histogram("H", 7)
    assert run.counted("H").tolist() == others(7)
    assert run.damaged == "1 record is damaged and left out"
    assert run.output()[7]["H"] is None


def test_damage_is_known_without_looking_at_anything(folder: Path) -> None:
    change(folder, np.array([0.5, 7.0]).tobytes())
    assert StoredRun(folder).damaged == "1 record is damaged and left out"


@pytest.mark.parametrize("to", [lambda byte: byte ^ 1, lambda byte: 0xFF], ids=["flipped", "undecodable"])
def test_a_damaged_layout_leaves_out_its_frames(folder: Path, to: Callable[[int], int]) -> None:
    change(folder, b'["F","0.weight"', to)  # in the name of the parameter
    run = StoredRun(folder)
    assert run.kinds == {"Loss": Kind.SCALAR, "H": Kind.HISTOGRAM}
    assert run.scalar("Loss").values.tolist() == list(range(STEPS))
    assert f"{STEPS} records are damaged and left out" in str(run.damaged)
    assert len(run.output()[3]) == 2


@pytest.mark.parametrize("to", [lambda byte: byte ^ 1, lambda byte: 0xFF], ids=["flipped", "undecodable"])
def test_damaged_metadata_are_left_out(folder: Path, to: Callable[[int], int]) -> None:
    change(folder, b"an unusual text", to)
    run = StoredRun(folder)
    assert "model" not in run.metadata
    assert run.name == "run"
    assert run.damaged == "run.db: the metadata 'model' are damaged"
    assert len(run.scalar("Loss")) == STEPS


def test_a_damaged_attempt_is_left_out(folder: Path) -> None:
    change(folder, b"finished")
    run = StoredRun(folder)
    assert run.damaged == "run.db: attempt 1 is damaged"
    assert (run.state, len(run.scalar("Loss"))) == ("finished", STEPS), "the pulse says it too"
    writer = create(folder, {"git": None}, STEPS)
    writer.close()
    assert writer.folder != folder


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A run of many pages."""
    writer = create(tmp_path / "long", {"git": None})
    for step in range(1000):
        writer.append([loss(step), *(Record(step, f"s{i}", Kind.SCALAR, float(step)) for i in range(20))])
    writer.close()
    return tmp_path / "long"


def test_a_damaged_page_costs_only_its_rows(long: Path) -> None:
    path = long / "run.db"
    data = bytearray(path.read_bytes())
    at = data.find(np.full(21, 500.0).tobytes()) // 4096 * 4096
    data[at : at + 4096] = bytes(4096)
    path.write_bytes(data)
    run = StoredRun(long)
    series = run.scalar("Loss")
    assert series.values.tolist() == series.steps.tolist()
    gone = sorted(set(range(1000)) - set(series.steps.tolist()))
    assert 500 in gone
    assert len(gone) < 30
    assert gone == list(range(gone[0], gone[-1] + 1)), "nothing but that page"
    assert "1 ranges of rows are damaged" in str(run.damaged)
    assert f"1000 records were written, {1000 - len(gone)} are there" in str(run.damaged)
    assert run.refresh() is False
    assert sum(1 for _ in run.records()) == 21 * (1000 - len(gone))


def test_a_database_that_was_cut_off_shows_what_is_left(long: Path) -> None:
    path = long / "run.db"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    run = StoredRun(long)
    series = run.scalar("Loss")
    assert 500 < len(series) < 700
    assert series.values.tolist() == series.steps.tolist()
    assert "pages are missing at the end" in str(run.damaged)
    assert "1000 records were written" in str(run.damaged)
    assert (run.state, run.name) == ("finished", "long")


def test_a_row_that_gives_itself_out_as_another_is_left_out(folder: Path) -> None:
    path = folder / "run.db"
    data = bytearray(path.read_bytes())
    tail = tail_of(folder, 30)
    row = data.rfind(bytes([61]), 0, data.find(tail))  # the 61st row, before its columns
    while data[row + 1] != 10:  # the length of its header: nine columns
        row = data.rfind(bytes([61]), 0, row)
    data[row] = 57
    path.write_bytes(data)
    run = StoredRun(folder)
    assert sorted(set(range(STEPS)) - set(run.scalar("Loss").steps.tolist())) == [30]
    assert "ranges of rows are damaged" in str(run.damaged)
    assert f"{2 * STEPS} records were written, {2 * STEPS - 1} are there" in str(run.damaged)


def test_any_changed_byte_is_noticed_or_does_not_matter(folder: Path) -> None:
    path, random = folder / "run.db", np.random.default_rng(0)
    whole = path.read_bytes()
    before, about = StoredRun(folder).output(), dict(StoredRun(folder).metadata)
    for at in random.integers(4096, len(whole), 150).tolist():
        data = bytearray(whole)
        data[at] ^= 1 << int(random.integers(8))
        path.write_bytes(data)
        run = StoredRun(folder)
        found = run.output()
        for step, records in found.items():
            assert all(value is None or value == before[step][name] for name, value in records.items()), at
        assert run.damaged or (found == before and all(about[key] == run.metadata[key] for key in run.metadata)), at
