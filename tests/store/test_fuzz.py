"""Whatever lies in a folder costs only itself: 5 seconds, 256 MiB, and a sentence that says why."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.store.contract import frame, loss
from tests.store.hostile import CASES
from tests.store.reader import SOUND

from cockpit.store import create

SECONDS, MEMORY = 5.0, 256  # MiB above what the libraries take
BUSY = 6  # times as long on a machine with other things to do
READER = Path(__file__).with_name("reader.py")


def made(folder: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COCKPIT_STORE", backend)
    writer = create(folder, {"git": None, "steps": 100})
    for step in range(40):
        writer.append([*frame(step), *(loss(step)._replace(name=f"m{place}") for place in range(20))])
    writer.step = 40
    writer.close()
    return folder


def read(root: Path, *options: str, timeout: float = 240.0) -> list[dict[str, Any]]:
    """What a process of its own says about every folder."""
    command = [sys.executable, str(READER), str(root), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(found: list[dict[str, Any]], count: int) -> None:
    assert len(found) == count
    for facts in found:
        assert facts["escaped"] is None, facts
        assert facts["listed"] is not None, facts
        assert facts["seconds"] < SECONDS, facts
        assert facts["clock"] < BUSY * SECONDS, facts
        assert facts["memory"] < MEMORY, facts


@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_cut_anywhere(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = made(tmp_path / "sound", backend, monkeypatch)
    (path,) = (path for path in sound.iterdir() if path.name in ("run.db", "run.frames"))
    whole, draw = path.read_bytes(), random.Random(0)
    root = tmp_path / "all"
    for place in range(60):
        shutil.copytree(sound, root / str(place))
        (root / str(place) / path.name).write_bytes(whole[: draw.randrange(len(whole))])
    check(read(shutil.copytree(sound, root / SOUND).parent), 61)


@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_changed_anywhere(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit, a byte, a stretch of zeros or noise, or pages in each other's place; most often near the beginning."""
    sound = made(tmp_path / "sound", backend, monkeypatch)
    (path,) = (path for path in sound.iterdir() if path.name in ("run.db", "run.frames"))
    whole, draw = path.read_bytes(), random.Random(1)
    root = tmp_path / "all"
    for place in range(120):
        data = bytearray(whole)
        for _ in range(draw.choice([1, 1, 3, 20])):
            at = draw.randrange(len(data) if draw.random() < 0.5 else 4096)
            match draw.randrange(4):
                case 0:
                    data[at] ^= 1 << draw.randrange(8)
                case 1:
                    data[at] = draw.choice([0, 0xFF, 0x7F, 0x80])
                case 2:
                    data[at : at + 64] = draw.choice([bytes(64), draw.randbytes(64)])[: len(data) - at]
                case 3:
                    one, other = (draw.randrange(len(data) // 4096) * 4096 for _ in range(2))
                    data[one : one + 4096], data[other : other + 4096] = (
                        data[other : other + 4096],
                        data[one : one + 4096],
                    )
        shutil.copytree(sound, root / str(place))
        (root / str(place) / path.name).write_bytes(data)
    check(read(shutil.copytree(sound, root / SOUND).parent), 121)


def test_hostile_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = made(tmp_path / "sound", "sqlite", monkeypatch)
    root = tmp_path / "all"
    for name, spoil in CASES.items():
        spoil(shutil.copytree(sound, root / name))
    shutil.copytree(sound, root / SOUND)
    found = read(root, "page")
    check(found, len(CASES) + 1)
    assert found[-1]["said"] is None, "beside all of them, a sound run is sound"
    assert found[-1]["listed"] == ["finished", None]
    unreadable = {facts["name"]: facts["listed"] for facts in found if facts["listed"][0] == "unreadable"}
    assert unreadable["pipe run.db"][1] == "run.db is a pipe, not a file"
    assert all(reason for _, reason in unreadable.values())
