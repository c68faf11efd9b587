from __future__ import annotations

from math import isnan, nan

import numpy as np

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.core.source import Series, total

HISTOGRAM = Histogram((np.linspace(0, 1, 3),), {"a": np.array([1, 2])})
RUN = Recorded(
    [
        Record(2, "Loss", Kind.SCALAR, 2.0),
        Record(0, "Loss", Kind.SCALAR, nan),
        Record(2, "Loss", Kind.SCALAR, 3.0),
        Record(1, "Loss", Kind.SCALAR, None, "no batch"),
        Record(0, "GradNorm", Kind.PER_PARAMETER, {"a": 3.0, "b": 4.0}, None, {"error": {"a": 3.0, "b": -4.0}}),
        Record(1, "GradNorm", Kind.PER_PARAMETER, {"b": 4.0, "c": 1.0}, None, {"error": 2, "rule": "old"}),
        Record(2, "GradNorm", Kind.PER_PARAMETER, None, "no batch", {"rule": "new"}),
        Record(0, "HessTrace", Kind.PER_PARAMETER, {"a": 3.0, "b": -4.0}),
        Record(0, "Summed", Kind.PER_PARAMETER, {"a": 3.0, "b": 4.0}, None, {"total": "sum"}),
        Record(0, "Parameters", Kind.PER_PARAMETER, {"a": {"norm": 2.0, "mean": 1.0}, "b": {"mean": 0.0}}),
        Record(0, "Hist", Kind.HISTOGRAM, HISTOGRAM),
        Record(1, "Hist", Kind.HISTOGRAM, None, "no batch"),
    ],
    "memory",
    {"host": "here"},
)


def test_kinds_come_in_the_order_of_appearance() -> None:
    assert list(RUN.kinds) == ["Loss", "GradNorm", "HessTrace", "Summed", "Parameters", "Hist"]
    assert (RUN.name, RUN.metadata) == ("memory", {"host": "here"})


def test_scalars_are_in_order_and_never_double() -> None:
    series = RUN.scalar("Loss")
    assert series.steps.tolist() == [0, 1, 2]
    assert isnan(series.values[0])
    assert isnan(series.values[1])
    assert series.values[2] == 3.0
    assert series.defined().steps.tolist() == [2]
    assert len(RUN.scalar("Hist")) == len(RUN.scalar("unknown")) == 0


def test_parts_and_totals() -> None:
    parts = RUN.parts("GradNorm")
    assert parts.keys == ("a", "b", "c")
    assert np.array_equal(parts.values, [[3, 4, nan], [nan, 4, 1], [nan] * 3], equal_nan=True)
    assert np.isnan(RUN.scalar("GradNorm").values).all(), "a total with a missing part is none"
    assert RUN.scalar("HessTrace").values.tolist() == [-1.0]
    assert RUN.scalar("Summed").values.tolist() == [7.0]
    assert np.array_equal(RUN.parts("Parameters").values, [[2.0, nan]], equal_nan=True)
    assert RUN.parts("Loss").values.shape == (0, 0)


def test_details_and_constants() -> None:
    series = RUN.detail("GradNorm", "error")
    assert (series.steps.tolist(), series.values.tolist()) == ([0, 1], [5.0, 2.0])
    assert RUN.constant("GradNorm", "rule") == "new"
    assert RUN.constant("GradNorm", "error") is None
    assert len(RUN.detail("GradNorm", "rule")) == 0


def test_histograms_and_reasons() -> None:
    assert RUN.counted("Hist").tolist() == [0]
    assert RUN.histogram("Hist", 0) is HISTOGRAM
    assert RUN.counted("Loss").tolist() == []
    assert RUN.reasons("Loss") == {"no batch": [1]}
    assert RUN.reasons("HessTrace") == {}


def test_total_takes_the_last_axis() -> None:
    values = np.array([[3.0, 4.0], [1.0, nan]])
    assert total(values, "norm")[0] == 5.0
    assert total(values, "sum")[0] == 7.0
    assert isnan(total(values, "norm")[1])
    assert len(Series(np.array([1]), np.array([nan])).defined()) == 0
