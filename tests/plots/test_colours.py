"""A figure of several runs has the page's colours."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.plots.samples import stored

from cockpit.dashboard.fleet import Fleet
from cockpit.plots.colours import colours


def test_as_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path))
    for place, name in enumerate(("c", "sweep/a", "b")):
        stored(tmp_path / name, started=1_700_000_000.0 + place)
    chosen = ["b", "c", "sweep/a"]
    assert colours([tmp_path / ident for ident in chosen]) == Fleet(tmp_path).colours(chosen)
    assert len(set(colours([tmp_path / ident for ident in chosen]))) == 3
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path / "elsewhere"))
    assert colours([tmp_path / "b"]) == Fleet(tmp_path).colours(["b"]), "the folder around it is the page's"


def test_what_is_no_run_has_a_colour_too(tmp_path: Path) -> None:
    assert len(colours([tmp_path / "log.json"])) == 1
