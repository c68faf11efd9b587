"""The text deck: what it reads, what it shows, what it refuses."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cockpit import CockpitPlotter
from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.paper_log import write_json
from cockpit.plots import sparkline
from cockpit.plots.deck import Row, deck
from cockpit.plots.log import read

EDGES = np.linspace(-2, 2, 5)


def output(steps: int = 10) -> dict[int, dict[str, Any]]:
    """What a run gives: a value of every kind, undefined ones and the user's own."""
    flat = Histogram((EDGES,), {"weight": np.array([0, 3, 5, 1]), "bias": np.array([0, 1, 0, 0])})
    square = Histogram((EDGES, EDGES), {"weight": np.eye(4, dtype=np.int64)})
    return {
        step: {
            "Loss": 2.0 / (step + 1),
            "Alpha": None if step == steps - 1 else 0.25,
            "GradNorm": {"weight": 3.0, "bias": 4.0},
            "HessTrace": {"weight": 3.0, "bias": -1.0},
            "GradHist1d": flat,
            "GradHist2d": square,
            "Fuel": 7.5,
        }
        for step in range(steps)
    }


def rows(steps: dict[int, dict[str, Any]]) -> dict[str, Row]:
    return {row.name: row for group in deck(steps) for row in group.rows}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_json(output(), tmp_path / "log.json")
    return tmp_path / "log"


# ---- what is read


class Live:
    def get_output(self) -> dict[int, dict[str, Any]]:
        return output()


def test_every_source_gives_the_same_deck(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(output(), tmp_path / "run" / "output.json")
    plotter = CockpitPlotter()
    shown, parsed = set(), json.loads(Path(f"{log}.json").read_text())
    sources = (str(log), log, f"{log}.json", tmp_path / "run", output(), Live(), parsed)
    for source in sources:
        plotter.plot(source, plot_title="deck")
        shown.add(capsys.readouterr().out)
    assert len(shown) == 1


def test_steps_are_in_numerical_order() -> None:
    assert list(read({"10": {}, "9": {}, "0": {}})) == [0, 9, 10]


@pytest.mark.parametrize("name", ["nowhere", "nowhere.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(CockpitError, match=r"nowhere\.json.* does not exist"):
        CockpitPlotter().plot(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "not JSON"),
        ("[1, 2]", "holds list"),
        ('{"version": 3}', "entry 'version' holds int"),
        ('{"weights": {"a": 1}}', "key 'weights' is not the number of a step"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(CockpitError, match=message):
        CockpitPlotter().plot(tmp_path / "other")


def test_a_foreign_object_is_refused() -> None:
    with pytest.raises(CockpitError, match="source is int"):
        CockpitPlotter().plot(3)


# ---- what is shown


def test_groups_in_the_order_of_the_deck(capsys: pytest.CaptureFixture[str]) -> None:
    CockpitPlotter().plot(output())
    text = capsys.readouterr().out
    titles = ["STEP SIZE", "GRADIENTS", "CURVATURE", "PERFORMANCE"]
    assert [text.index(title) for title in titles] == sorted(text.index(title) for title in titles)
    assert "10 steps recorded, 0 to 9" in text
    assert "Undefined at some steps: Alpha 1." in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_one_number_for_each_kind() -> None:
    found = rows(output())
    assert (found["Loss"].reading, found["Loss"].values[-1]) == ("value", 0.2)
    assert (found["GradNorm"].reading, found["GradNorm"].values[0]) == ("total", 5.0)
    assert (found["HessTrace"].reading, found["HessTrace"].values[0]) == ("sum", 2.0)
    assert found["GradHist1d"].reading == "spread"
    assert found["GradHist1d"].values[0] == pytest.approx(np.std([-0.5] * 4 + [0.5] * 5 + [1.5]))
    assert found["GradHist1d"].limits == (-2, 2)
    assert found["GradHist2d"].counts is not None
    assert found["GradHist2d"].counts.tolist() == [1, 1, 1, 1]
    assert (len(found["Alpha"].values), found["Alpha"].undefined) == (9, 1)


def test_what_has_no_place_of_its_own_is_shown_last() -> None:
    assert [row.name for row in deck(output())[-1].rows] == ["Loss", "Fuel"]


def test_parameters_are_shown_by_their_norm() -> None:
    summary = {"weight": {"norm": 3.0, "mean": 0.1}, "bias": {"norm": 4.0, "mean": 0.2}}
    assert rows({0: {"Parameters": summary}})["Parameters"].values == [5.0]


def test_not_finite_values_are_shown_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json({0: {"Loss": 1.0}, 1: {"Loss": nan}, 2: {"Loss": 3.0}}, tmp_path / "log.json")
    CockpitPlotter().plot(tmp_path / "log")
    assert sparkline.NOT_FINITE in capsys.readouterr().out


def test_a_column_that_was_not_logged_is_not_undefined() -> None:
    assert list(rows({0: {"Loss": 1.0, "valid_loss": None}})) == ["Loss"]


@pytest.mark.parametrize("nothing", [{}, {0: {}}])
def test_nothing_tracked_yet(nothing: dict[int, Any], capsys: pytest.CaptureFixture[str]) -> None:
    CockpitPlotter().plot(nothing)
    assert "no step has been tracked yet" in capsys.readouterr().out


def test_discard(capsys: pytest.CaptureFixture[str]) -> None:
    CockpitPlotter().plot(output(), discard=4)
    assert "5 steps recorded, 0 to 4" in capsys.readouterr().out


def test_the_original_s_arguments_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    plotter = CockpitPlotter(secondary_screen=True)
    plotter.plot(output(), block=True, show_log_iter=True, plot_title="[title]", debug=True)
    assert capsys.readouterr().out.startswith("[title]: ")


# ---- what is saved


def test_save_beside_the_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CockpitPlotter().plot(str(log), show_plot=False, save_plot=True, savename_append="__end")
    assert capsys.readouterr().out == ""
    assert "STEP SIZE" in log.with_name("log__end.txt").read_text(encoding="utf-8")


def test_save_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CockpitPlotter().plot(output(), savedir=tmp_path / "new", save_plot=True)
    assert (tmp_path / "new" / "cockpit.txt").read_text(encoding="utf-8") == capsys.readouterr().out


def test_save_without_a_place_is_refused() -> None:
    with pytest.raises(CockpitError, match="savedir"):
        CockpitPlotter().plot(output(), save_plot=True)


# ---- lines


def test_curve() -> None:
    assert sparkline.curve(range(8), range(8), range(8), 8) == sparkline.BLOCKS
    assert sparkline.curve([0, 1], [5, 5], [0, 1], 8) == "▄▄"
    assert sparkline.curve([0], [5], [0], 8) == "▄"
    assert sparkline.curve([], [], [0], 8) == ""
    assert sparkline.curve([0, 1, 2], [nan, 1, 2], [0, 1, 2], 8) == "!▁█"


def test_curve_is_blank_before_the_first_value() -> None:
    assert sparkline.curve([2, 3], [0, 1], range(4), 4) == "  ▁█"


def test_curve_by_the_logarithm_over_decades() -> None:
    straight = sparkline.curve(range(8), [10.0**k for k in range(8)], range(8), 8)
    assert straight == sparkline.BLOCKS


def test_curve_over_the_logarithm_of_steps() -> None:
    steps = [0, 1, 3, 7, 15, 31, 63, 127]
    assert sparkline.curve(steps, range(8), steps, 8, log_steps=True) == sparkline.BLOCKS


def test_bars() -> None:
    assert sparkline.bars(np.array([0.0, 1.0, 1e6, 0.0]), 4) == " ▁█ "
    assert len(sparkline.bars(np.ones(100), 28)) == 28
