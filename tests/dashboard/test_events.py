from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.runs import frame, write

from cockpit import store
from cockpit.dashboard import events as module
from cockpit.dashboard import fleet as fleets
from cockpit.dashboard.events import Events
from cockpit.dashboard.fleet import Fleet
from cockpit.results import folder as results
from cockpit.results.result import Result


def test_a_page_is_told_which_open_run_changed(tmp_path: Path) -> None:
    writer = store.create(tmp_path / "run", {"name": "run"})
    fleet = Fleet(tmp_path)
    with fleet.reading(["run"]):
        pass

    async def listen() -> list[dict[str, Any]]:
        events, told = Events(fleet), []
        async for message in events.stream():
            data = [line for line in message.decode().splitlines() if line.startswith("data: ")]
            told += [json.loads(line.removeprefix("data: ")) for line in data]
            if len(told) == 1:
                writer.append(frame(0))
            if told[-1]["changed"]:
                events.close()
        return told

    told = asyncio.run(asyncio.wait_for(listen(), 20))
    writer.close()
    assert told[0] == {"changed": [], "listed": True}
    assert told[-1]["changed"] == ["run"]


def test_a_run_opened_between_two_looks_is_told(tmp_path: Path) -> None:
    write(tmp_path / "run", steps=range(2))
    fleet = Fleet(tmp_path)

    async def listen() -> list[str]:
        stream = Events(fleet).stream()
        await anext(stream)
        with fleet.reading(["run"]):
            pass
        found: list[str] = json.loads((await anext(stream)).decode().removeprefix("data: "))["changed"]
        return found

    assert asyncio.run(asyncio.wait_for(listen(), 20)) == ["run"]


def test_a_run_that_is_gone_and_comes_back_is_told_both_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PULSE", 0.02)
    monkeypatch.setattr(fleets, "LISTED", 0.0)
    monkeypatch.setattr(fleets, "PATIENCE", 0.0)
    there = write(tmp_path / "run", steps=range(2))
    fleet = Fleet(tmp_path)
    with fleet.reading(["run"]):
        pass

    async def listen() -> list[list[str]]:
        stream, told = Events(fleet).stream(), []
        await anext(stream)
        for change in (lambda: shutil.rmtree(there), lambda: write(tmp_path / "run", steps=range(3))):
            await asyncio.to_thread(change)
            told.append(json.loads((await anext(stream)).decode().removeprefix("data: "))["changed"])
        return told

    assert asyncio.run(asyncio.wait_for(listen(), 20)) == [["run"], ["run"]]


def test_a_page_is_told_of_results_that_come_without_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imported ones, while no run changes: added, changed, and gone again."""
    monkeypatch.setattr(module, "PULSE", 0.02)
    write(tmp_path / "run", steps=range(2))
    old = Result("digits", "SGD", {"lr": 0.1}, 42, 64, 1, {"test_loss": [2.0, 1.0]}, source="deepobs 1.1")
    there = tmp_path / "old" / "seed_42"
    changes = [
        lambda: results.write(old, there),
        lambda: results.write(replace(old, epochs=12), there),
        lambda: shutil.rmtree(there),
    ]

    async def listen() -> list[str]:
        stream, told = Events(Fleet(tmp_path)).stream(), []
        await anext(stream)
        for change in changes:
            await asyncio.to_thread(change)
            told.append((await asyncio.wait_for(anext(stream), 5)).decode().strip())
        return told

    assert asyncio.run(listen()) == ['data: {"changed": [], "listed": true}'] * 3


def test_silence_is_filled_with_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PULSE", 0.01)
    monkeypatch.setattr(module, "HEARTBEAT", 0.05)

    async def listen() -> bytes:
        stream = Events(Fleet(tmp_path)).stream()
        await anext(stream)
        return await anext(stream)

    assert asyncio.run(asyncio.wait_for(listen(), 20)).startswith(b": ")
