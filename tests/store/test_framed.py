from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.store.contract import StoreContract, loss

from cockpit.store import StoredRun, create
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
