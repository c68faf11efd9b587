"""A console that shows what its stream can."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tests.plots.samples import METADATA

from cockpit import CockpitPlotter, open_run, store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.plots.console import console


@pytest.fixture
def run(tmp_path: Path) -> Path:
    writer = store.create(tmp_path / "a", {**METADATA, "name": "läuft"})
    writer.append([Record(0, name, Kind.SCALAR, 1.0) for name in ("ümlaut", "日本", "half\ud800")])
    writer.append([Record(0, "odd", Kind.SCALAR, None, "weil ß")])
    writer.close()
    return tmp_path / "a"


@pytest.mark.parametrize(("encoding", "umlaut"), [("ascii", "?mlaut"), ("latin-1", "ümlaut"), ("utf-8", "ümlaut")])
def test_what_cannot_be_shown_is_replaced(
    run: Path, encoding: str, umlaut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for show in (lambda: open_run(run).show(), lambda: CockpitPlotter().plot(run)):
        paper = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", paper)
        show()
        paper.flush()
        shown = paper.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
        monkeypatch.undo()
        assert umlaut in shown
        assert ("日本" if encoding == "utf-8" else "??") in shown
        assert "half?" in shown


def test_without_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    console().print("nobody reads this")
