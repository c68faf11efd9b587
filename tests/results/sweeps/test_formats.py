"""A report in words, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.results.sweeps.plans import QUADRATIC, SGD, entry, plan
from tests.results.sweeps.test_cells import filled
from tests.results.tex import check

from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.formats import FORMATS, render, sections, text
from cockpit.results.sweeps.plan import Contender, SweepPlan, Task
from cockpit.results.sweeps.reading import read
from cockpit.results.sweeps.report import Report, report
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.store import create

ADAM = Contender("Adam", 1, {"lr": 0.001}, {"lr": {"log": [1e-4, 1.0]}}, studied=True)
DIGITS = Task("digits", 1, "accuracy", epochs=2, batch=128)
FULL = replace(QUADRATIC, epochs=100)


def made(spec: Spec) -> Any:
    """Adam is better by one, on digits by a tenth; Adam's seed 43 diverges with its defaults on digits."""
    good = spec.contender.name == "Adam"
    noise = 0.001 * (spec.seed * 7 % 5)
    if spec.task.name == "digits":
        bad = good and spec.seed == 43 and spec.hyperparameters["lr"] == 0.001
        value = 0.8 + 0.1 * good + noise
        return entry(spec, valid=value, test=value, state="diverged" if bad else "finished", length=1 if bad else 3)
    return entry(spec, valid=spec.hyperparameters["lr"], test=87.0 - good + noise * (1 + good))


def example(folder: Path, **changes: Any) -> Report:
    wanted = plan(problems=(FULL, DIGITS), optimizers=(SGD, ADAM), seeds=5, **changes)
    return Report(read(filled(folder, wanted, made)))


def test_text(tmp_path: Path) -> None:
    shown = text(example(tmp_path), published=True)
    assert shown.startswith("test\n8 of 8 cells have results\n")
    lines = shown.splitlines()
    (header,) = [line for line in lines if "digits (%)" in line][:1]
    assert header.split()[:3] == ["optimizer", "quadratic_deep", "(loss)"]
    assert any(line.split()[:4] == ["Adam", "•", "86.00", "±"] for line in lines)
    assert "diverged (1 of 5)" in shown
    assert "1 seed diverged in 1 cell, most of Adam oneshot constant 1" in shown
    assert "[B.3*]" in shown
    assert "* tuned on matrices that differ from setting to setting" in shown
    assert "paired t test over 4 seeds, Holm at 0.002" in shown
    for heading in ("Performance", "Better, worse, or noise", "Several untuned optimizers, or tuning one", "Settings"):
        assert f"\n{heading}\n{'=' * len(heading)}\n" in shown
    assert "[B.3" not in text(example(tmp_path))


def test_every_setting_over_its_seeds(tmp_path: Path) -> None:
    lines = text(example(tmp_path, tuning_seeds=3)).splitlines()
    begin = next(place for place, line in enumerate(lines) if line == "stability over seeds")
    assert lines[begin + 3].split() == ["quadratic_deep", "SGD", "constant", "42", "25", "0", "0", "0.0012"]


def test_text_fits_a_terminal(tmp_path: Path) -> None:
    narrow = text(example(tmp_path), width=80)
    assert "…" not in narrow


def test_latex(tmp_path: Path) -> None:
    source = render(example(tmp_path), "latex", published=True)
    assert set(check(source)) == {"document", "tabular"}
    assert "\\cellcolor{green!100!red!35}" in source
    assert "quadratic\\_deep" in source


def test_csv(tmp_path: Path) -> None:
    found = example(tmp_path)
    rows = list(csv.DictReader(io.StringIO(render(found, "csv", published=True))))
    assert len(rows) == 8
    by_name = {(row["problem"], row["optimizer"], row["budget"]): row for row in rows}
    one = by_name["quadratic_deep", "SGD", "small"]
    assert json.loads(one["values"]) == [87.0 + 0.001 * (seed * 7 % 5) for seed in range(42, 47)]
    assert one["published_table"] == "B.3"
    assert one["command"].startswith("cockpit bench run quadratic_deep -o SGD --lr ")
    assert by_name["digits", "Adam", "oneshot"]["mean"] == ""
    assert "published_table" not in render(found, "csv")


def test_json(tmp_path: Path) -> None:
    found = json.loads(render(example(tmp_path), "json"), parse_constant=pytest.fail)
    assert {"cells", "comparisons", "score", "missing"} <= found.keys()
    assert found["score"] is None
    assert found["missing"] == []
    names = set(Cell.__slots__) - {"missing"}
    assert all(one.keys() == names for one in found["cells"])
    assert len(found["cells"]) == 8
    keys = {"a", "b", "problem", "budget", "schedule", "difference", "interval", "n", "verdict"}
    assert all(one.keys() == keys for one in found["comparisons"])
    assert len(found["comparisons"]) == 3  # none where a seed diverged
    assert {one["n"] for one in found["comparisons"] if one["budget"] == "oneshot"} == {5}
    assert {one["n"] for one in found["comparisons"] if one["budget"] == "small"} == {4}
    figure = next(one["published"] for one in found["cells"] if one["published"])
    assert figure.keys() >= {"table", "mean", "std", "met", "why", "caveat"}
    several = json.loads(render(example(tmp_path / "two", seed=(42, 7)), "json"))
    assert {one["tuning_seed"] for one in several["comparisons"]} == {42, 7}
    assert several["retuned"]


def test_a_part_of_the_runs(tmp_path: Path) -> None:
    """What is there is reported, what is missing is said."""
    wanted: SweepPlan = plan(seeds=2)
    store = create(tmp_path / "store", wanted)
    found = Report(read(store))
    assert found.plain()["cells"] == []
    from cockpit.results.sweeps.runs import groups

    (group,) = groups(wanted)
    store.commit([entry(group.oneshot()[0])])
    found = report(tmp_path / "store")
    assert [one["budget"] for one in found.plain()["cells"]] == ["oneshot"]
    assert {one["budget"]: one["runs"] for one in found.plain()["missing"]} == {"oneshot": 1, "small": 26}
    shown = text(found)
    assert "27 runs of 2 cells still to do" in shown
    assert "2.00 ± 0.00 (1 to do)" in shown
    assert found.several == []


def test_the_python_call(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    example(tmp_path)
    found = report(str(tmp_path / "store"))
    frame = pandas.DataFrame(found.rows())
    assert len(frame) == 8
    assert frame[frame.optimizer == "Adam"].shape[0] == 4
    assert set(frame.columns) >= {"problem", "optimizer", "budget", "schedule", "mean", "std", "published_mean"}


def test_unknown_formats(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="unknown format of a report 'xml'"):
        render(example(tmp_path), "xml")
    assert set(FORMATS) == {"text", "csv", "latex", "json"}
    assert next(heading for heading, _ in sections(example(tmp_path), False)) == "Performance"
