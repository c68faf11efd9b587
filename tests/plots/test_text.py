"""The deck as text."""

from __future__ import annotations

from io import StringIO
from math import inf, nan

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.plots.samples import LATER, records

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.plots import sparkline, text


def written(found: list[Record], width: int = 80, encoding: str = "utf-8") -> str:
    class Paper(StringIO):
        @property
        def encoding(self) -> str:  # type: ignore[override]
            return encoding

    paper = Paper()
    text.write(Console(file=paper, width=width, color_system=None), "a run", Recorded(found))
    return paper.getvalue()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_it_fits_the_terminal(width: int) -> None:
    shown = written(records(), width)
    assert "a run: 10 steps recorded, 0 to 9" in shown
    assert width - 45 < max(len(line) for line in shown.splitlines()) <= width


def test_groups_in_the_order_of_the_deck() -> None:
    shown = written(records())
    titles = ["STEP SIZE", "GRADIENTS", "CURVATURE", "PERFORMANCE"]
    assert [shown.index(title) for title in titles] == sorted(shown.index(title) for title in titles)


def test_reasons_are_said_once_for_all_quantities() -> None:
    found = [*records(), Record(9, "UpdateSize", Kind.PER_PARAMETER, None, LATER)]
    found += [Record(step, "CABS", Kind.SCALAR, None, "the loss is 0") for step in range(3)]
    shown = " ".join(written(found).split())
    assert f"Undefined: Alpha at step 9, UpdateSize at step 9: {LATER}." in shown
    assert "Undefined: CABS at 3 steps: the loss is 0." in shown


def test_not_finite_values_are_shown_as_such() -> None:
    line = next(line for line in written(records()).splitlines() if line.strip().startswith("Fuel"))
    assert sparkline.NOT_FINITE in line
    assert " 7.5 " in line, "the median is that of the finite values"


def test_where_only_ascii_can_be_shown() -> None:
    assert written(records(), encoding="ascii").isascii()


def test_strange_names_do_no_harm() -> None:
    shown = written([Record(0, "[red]\x1b[31m" + "x" * 50, Kind.SCALAR, 1.0)])
    assert "\x1b" not in shown
    assert "[red]?[31mxxxxxxxxxxx..." in shown


@pytest.mark.parametrize(("value", "shown"), [(0.12345, "0.123"), (12345.6, "12346"), (1e6, "1e+06"), (-1.0, "-1")])
def test_short_numbers(value: float, shown: str) -> None:
    assert text.short(value) == shown


@pytest.mark.parametrize(
    ("values", "shown"), [([inf, inf], "inf"), ([-inf, nan], "-inf"), ([inf, -inf], "nan"), ([inf, 2.0], "2")]
)
def test_the_median_where_little_is_finite(values: list[float], shown: str) -> None:
    line = written([Record(step, "Loss", Kind.SCALAR, value) for step, value in enumerate(values)])
    assert next(line for line in line.splitlines() if "Loss" in line).split()[3] == shown


@pytest.mark.parametrize("width", [60, 80])
def test_wide_characters_take_two_places(width: int) -> None:
    shown = written([Record(0, name, Kind.SCALAR, 1.0) for name in ("日本" * 10, "Loss")], width)
    rows = [line for line in shown.splitlines() if "日" in line or "Loss" in line]
    ends = [cell_len(line[: line.index(" 1 ")]) for line in rows]
    assert len(ends) == 2
    assert len(set(ends)) == 1, "columns stand in one line"
    assert all(cell_len(line) <= width for line in shown.splitlines())


def test_nothing_tracked_yet() -> None:
    assert written([]) == "a run: no step has been tracked yet\n"
