from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from tests.store.contract import StoreContract, loss

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import StoredRun, create, framed
from cockpit.store.framed import HEAD, MAGIC, NAME, FramedLog, FramedReader


class TestFramed(StoreContract):
    backend = "file"

    def intact(self, whole: bytes, size: int) -> bool:
        at = len(MAGIC)
        while at < size:
            at += HEAD.size + HEAD.unpack_from(whole, at)[0]
        return at == size or size < len(MAGIC)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COCKPIT_STORE", "file")
    writer = create(tmp_path, {"git": None})
    for step in range(20):
        writer.append([loss(step)])
    writer.close()
    return tmp_path


def places(folder: Path) -> list[int]:
    return [entry.place - HEAD.size for entry in FramedReader(folder).news().entries]


def test_one_damaged_frame_costs_only_itself(folder: Path) -> None:
    data = bytearray((folder / NAME).read_bytes())
    data[places(folder)[7] + HEAD.size + 3] ^= 1
    (folder / NAME).write_bytes(data)
    run = StoredRun(folder)
    assert run.scalar("Loss").steps.tolist() == [step for step in range(20) if step != 7]
    assert "damaged" in str(run.damaged)


def test_a_damaged_length_does_not_hide_what_follows(folder: Path) -> None:
    data = bytearray((folder / NAME).read_bytes())
    data[places(folder)[7] + 2] = 0xFF  # now far longer than the file
    (folder / NAME).write_bytes(data)
    assert StoredRun(folder).scalar("Loss").steps.tolist() == [step for step in range(20) if step != 7]
    writer = create(folder, {"git": None}, 20)
    writer.close()
    assert writer.folder != folder, "cutting here would have lost records"
    assert (folder / NAME).read_bytes() == bytes(data)


def test_zeros_at_the_end_are_cut_off(folder: Path) -> None:
    whole = (folder / NAME).read_bytes()
    (folder / NAME).write_bytes(whole + bytes(4096))
    assert "unfinished" in str(StoredRun(folder).damaged)
    log = FramedLog(folder)
    log.close()
    assert (folder / NAME).read_bytes() == whole


def test_a_write_that_fails_half_way_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, log, write = (folder / NAME).read_bytes(), FramedLog(folder), os.write
    items = FramedReader(folder).news().attempts

    def half(file: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return write(file, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            log.write(items)
    assert (folder / NAME).read_bytes() == whole
    log.write(items)
    log.close()
    assert len(FramedReader(folder).news().attempts) == len(items) * 2


class Shorter:
    """The size of a file as it was a moment ago."""

    def __init__(self, size: int) -> None:
        self.st_size, self.st_mode = size, stat.S_IFREG


@pytest.mark.parametrize("growing", [True, False])
def test_a_record_that_is_being_written_is_waited_for(
    folder: Path, growing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end, and the records behind it, appear between the look at the size and the reading."""
    reader, size = FramedReader(folder), places(folder)[7] + 20
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", lambda _: Shorter(size))
        early = reader.news(growing)
    assert [entry.step for entry in early.entries] == list(range(7))
    late = reader.news(growing)
    assert [entry.step for entry in late.entries] == list(range(7, 20))
    assert (late.damage, late.gap, late.torn) == (None, None, None)


def test_while_somebody_writes_a_gap_is_given_time_to_fill(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server may show later bytes before earlier ones."""
    whole = (folder / NAME).read_bytes()
    at = places(folder)[7] + HEAD.size
    (folder / NAME).write_bytes(whole[:at] + bytes(10) + whole[at + 10 :])
    reader = FramedReader(folder)
    assert [entry.step for entry in reader.news(growing=True).entries] == list(range(7))
    again = reader.news(growing=True)
    assert (again.entries, again.gap, again.waiting) == ([], None, True)
    (folder / NAME).write_bytes(whole)
    assert [entry.step for entry in reader.news(growing=True).entries] == list(range(7, 20))
    other = FramedReader(folder)
    (folder / NAME).write_bytes(whole[:at] + bytes(10) + whole[at + 10 :])
    other.news(growing=True)
    monkeypatch.setattr(framed, "PATIENCE", 0.0)
    late = other.news(growing=True)
    assert [entry.step for entry in late.entries] == list(range(8, 20)), "but not for ever"
    assert "damaged" in str(late.gap)


def test_damage_stays_said(folder: Path) -> None:
    data = bytearray((folder / NAME).read_bytes())
    data[places(folder)[7] + HEAD.size + 3] ^= 1
    (folder / NAME).write_bytes(data)
    run = StoredRun(folder)
    said = run.damaged
    for _ in range(3):
        run.refresh()
        assert run.damaged == said is not None
    with (folder / NAME).open("ab") as file:
        file.write(b"\0")
    run.refresh()
    assert str(said).split(";")[0] in str(run.damaged)


def test_behind_damage_even_a_large_record_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next writer would otherwise cut it off."""
    monkeypatch.setattr(framed, "SEARCHED", 1000)
    writer = create(folder, {"git": None}, 20)
    writer.append([Record(20, "x", Kind.PER_SAMPLE, np.random.default_rng(0).random(50_000))])
    writer.close()
    data = bytearray((folder / NAME).read_bytes())
    begin, end = places(folder)[19:]
    data[begin:end] = bytes(end - begin)
    (folder / NAME).write_bytes(data)
    assert FramedReader(folder).news().entries[-1].step == 20
    assert create(folder, {"git": None}, 21).folder != folder
