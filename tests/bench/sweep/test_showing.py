"""``cockpit bench report``, and tables and figures of a sweep."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.results.sweeps.plans import SGD, plan
from tests.results.sweeps.test_cells import filled
from tests.results.sweeps.test_formats import example

from cockpit.cli import main
from cockpit.results.sweeps.store import create


def call(*arguments: str | Path, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["bench", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_a_format_goes_to_the_output_or_to_a_file(tmp_path: Path) -> None:
    example(tmp_path)
    folder = tmp_path / "store"
    assert call("report", folder).stdout.startswith("test\n8 of 8 cells have results\n")
    for format, ending in (("text", "txt"), ("latex", "tex"), ("csv", "csv"), ("json", "json")):
        shown = call("report", folder, "--format", format, "--published").stdout
        file = tmp_path / f"out.{ending}"
        assert call("report", folder, "--published", "-o", file).stdout.startswith(f"{file}  ")
        assert file.read_text() == shown
    pytest.importorskip("vl_convert")
    assert call("report", folder, "--format", "html").stdout.startswith("<!doctype html>")
    call("report", folder, "-o", tmp_path / "out.html")
    assert (tmp_path / "out.html").read_text().endswith("</html>\n")


def test_beside_another_sweep(tmp_path: Path) -> None:
    mine = replace(SGD, name="my_opt:Mine", version="abc")
    for name, optimizer in (("new", mine), ("old", SGD)):
        filled(tmp_path / name, plan(name=name, optimizers=(optimizer,), seeds=3))
    shown = call("report", tmp_path / "new/store", "--with", tmp_path / "old/store", "--format", "json").stdout
    assert {one["optimizer"] for one in json.loads(shown)["cells"]} == {"my_opt:Mine", "SGD"}
    shown = call("report", tmp_path / "new/store", "--with", tmp_path / "old/store").stdout
    assert "SGD" in shown
    assert "holds no sweep" in call("report", tmp_path / "new/store", "--with", tmp_path, code=2).stderr


def test_nothing_to_report(tmp_path: Path) -> None:
    create(tmp_path / "store", plan())
    assert "nothing to report" in call("report", tmp_path / "store", code=2).stderr
    assert "holds no sweep" in call("report", tmp_path, code=2).stderr


def test_tables_and_figures_read_a_sweep(tmp_path: Path) -> None:
    example(tmp_path)
    rows = json.loads(call("table", tmp_path / "store", "--format", "json").stdout)["rows"]
    assert {(row["problem"], row["optimizer"]) for row in rows} == {
        (problem, optimizer) for problem in ("quadratic_deep", "digits") for optimizer in ("SGD", "Adam")
    }
    call("plot", tmp_path / "store", "--kind", "sensitivity", "-o", tmp_path / "a.tex")
    assert "xlabel={lr}" in (tmp_path / "a.tex").read_text()
