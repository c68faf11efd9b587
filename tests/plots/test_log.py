"""The paper's JSON log becomes records."""

from __future__ import annotations

import json
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.plots.samples import output, square

from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.paper_log import write_json
from cockpit.plots import log


def read(values: dict[str, Any]) -> dict[str, Record]:
    return {record.name: record for record in log.records({0: values})}


def test_steps_are_in_numerical_order() -> None:
    assert list(log.steps({"10": {}, "9": {}, "0": {}}, "here")) == [0, 9, 10]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, Kind.SCALAR, 1.0),
        ("inf", Kind.SCALAR, inf),
        ([3.0, "-inf"], Kind.PER_PARAMETER, {"0": 3.0, "1": -inf}),
        ({"weight": 3.0}, Kind.PER_PARAMETER, {"weight": 3.0}),
        ({"weight": {"norm": 3.0, "max": "inf"}}, Kind.PER_PARAMETER, {"weight": {"norm": 3.0, "max": inf}}),
        ([[3.0, 4.0], [0.0]], Kind.PER_PARAMETER, {"0": {"norm": 5.0}, "1": {"norm": 0.0}}),
    ],
)
def test_kinds_are_told_apart_by_their_form(value: Any, kind: Kind, expected: Any) -> None:
    record = read({"Thing": value})["Thing"]
    assert (record.kind, record.value, record.reason) == (kind, expected, None)


def test_not_a_number_stays_one() -> None:
    assert isnan(read({"Loss": "nan"})["Loss"].value)


def test_histograms_of_one_and_two_axes() -> None:
    flat = read({"H": {"hist": [1, 2], "edges": [0, 1, 2]}})["H"]
    assert isinstance(flat.value, Histogram)
    assert flat.value.counts.tolist() == [1, 2]
    wide = read({"H": square().as_dict()})["H"]
    assert (wide.value.counts == np.eye(4)).all()
    assert [len(axis) for axis in wide.value.edges] == [5, 5]


def test_a_histogram_that_does_not_fit_is_undefined() -> None:
    record = read({"H": {"hist": [1, 2, 3], "edges": [0, 1, 2]}})["H"]
    assert record.value is None
    assert record.reason == "the log's edges do not fit its counts"


def test_an_undefined_value_takes_the_kind_of_its_quantity() -> None:
    found = list(log.records({0: {"GradNorm": None}, 1: {"GradNorm": [1.0]}, 2: {"GradNorm": 3.0}}))
    assert [record.kind for record in found] == [Kind.PER_PARAMETER] * 3
    assert [record.reason is None for record in found] == [False, True, False]


def test_a_column_that_was_not_logged_is_not_undefined() -> None:
    assert list(read({"Loss": 1.0, "valid_loss": None})) == ["Loss"]


def test_what_we_write_we_read(tmp_path: Path) -> None:
    write_json(output(3), tmp_path / "log.json")
    found = {record.name: record for record in log.records(log.parse(tmp_path / "log.json"))}
    assert found["GradNorm"].value == {"0": 3.0, "1": 4.0}
    assert found["Parameters"].value["0.weight"]["norm"] == 3.0
    assert found["GradHist1d"].value.counts.tolist() == [0, 4, 5, 1]
    assert found["Alpha"].reason == log.UNSAID


def test_numbers_as_the_paper_s_tool_writes_them(tmp_path: Path) -> None:
    """It writes NaN, which is not JSON but read by Python."""
    (tmp_path / "log.json").write_text(json.dumps({"0": {"Loss": nan}}))
    assert isnan(next(log.records(log.parse(tmp_path / "log.json"))).value)


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
        log.parse(tmp_path / "other.json")
