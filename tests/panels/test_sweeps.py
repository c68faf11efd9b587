"""A sweep as panels."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from cockpit.panels import Panel
from cockpit.panels.bench import Measure, palette
from cockpit.panels.sweeps import BAD, BELOW, GOOD, Line, Pair, Upright, against, gain, matrix, pairs, parallel

NAN = math.nan
LOSS = Measure("test loss", rises=False)


def strict(panel: Panel) -> None:
    """Only what JSON has, and every layer's data are there."""
    json.dumps([panel.spec, panel.datasets], allow_nan=False)
    assert {layer["data"]["name"] for layer in panel.spec["layer"]} <= set(panel.datasets)


def line(name: str, *values: float) -> Line:
    return Line(name, np.array(values))


def test_matrix() -> None:
    panel = matrix("m", ["SGD", "Adam"], ["SGD", "Adam"], [[0.0, 1.5], [-9.0, None]], cap=3.0, id="m")
    strict(panel)
    cells = {(row["r"], row["c"]): (row["t"], row["o"], row["w"]) for row in panel.datasets["cells"]}
    assert cells["SGD", "Adam"] == ("+1.5", 0.25, GOOD)
    assert cells["Adam", "SGD"] == ("-9.0", 0.5, BAD)  # beyond the cap
    assert cells["Adam", "Adam"][:2] == ("–", 0.0)
    assert cells["SGD", "SGD"][:2] == ("+0.00", 0.0)
    assert matrix("m", [], [], [], 1.0, "m").empty


def test_pairs() -> None:
    panel = pairs("p", [Pair("SGD", "Adam", 1.5, True), Pair("SGD", "NAG", -0.2, False)], "p")
    strict(panel)
    cells = {(row["r"], row["c"]): (row["t"], row["o"], row["w"]) for row in panel.datasets["cells"]}
    assert cells["SGD", "Adam"] == ("+1.5", 0.5, GOOD)
    assert cells["Adam", "SGD"] == ("-1.5", 0.5, BAD)
    assert cells["SGD", "NAG"][:2] == ("-0.20", 0.0)  # noise
    assert cells["Adam", "NAG"][:2] == ("–", 0.0)  # not compared
    assert cells["NAG", "NAG"][0] == ""
    assert pairs("p", [], "p").empty


def test_gain() -> None:
    places = ["small, constant", "medium, constant"]
    panel = gain("g", places, [line("a", 0.1, 0.2), line("b", 0.3, NAN), line("c", 0.2, 50.0)])
    strict(panel)
    assert [row["v"] for row in panel.datasets["usual"]] == pytest.approx([20.0, 2510.0])
    assert panel.datasets["spread"][0] == {"x": places[0], "v": pytest.approx(15.0), "w": pytest.approx(25.0)}
    assert len(panel.datasets["each"]) == 5
    low, high = panel.spec["encoding"]["y"]["scale"]["domain"]
    assert all(low <= row["v"] <= high for row in panel.datasets["each"])
    assert gain("g", places, [line("a", NAN, NAN)]).empty


def test_parallel_coordinates() -> None:
    axes = [
        Upright("p", 10.0, 2.0, ("10", "2")),
        Upright("q", 0.5, 0.9, ("50", "90")),
        Upright("r", 1.0, 1.0, ("1", "1")),
    ]
    lines = [line("Adam", 2.0, 0.7, 1.0), line("SGD", 90.0, 0.9, NAN), line("NAG", 6.0, NAN, NAN)]
    marks = [line("Adam", 10.0, 0.5, 1.0), line("AdaBound", 4.0, 0.6, 1.0)]
    bar = (np.array([1.0, 0.6, NAN]), np.array([3.0, 0.8, NAN]))
    panel = parallel("p", axes, lines, palette(["Adam", "SGD", "NAG"]), marks, bar)
    strict(panel)
    held = {(row["k"], row["x"]): row["v"] for row in panel.datasets["lines"]}
    assert held == {
        ("Adam", "p"): 1.0,
        ("Adam", "q"): pytest.approx(0.5),
        ("SGD", "p"): BELOW,  # far worse than untuned Adam
        ("SGD", "q"): 1.0,
        ("NAG", "p"): 0.5,
    }
    assert [row["s"] for row in panel.datasets["marks"]] == ["triangle-down"] * 2 + ["triangle-up"] * 2
    assert panel.datasets["bar"][0] == {"x": "p", "v": pytest.approx(1.125), "w": pytest.approx(0.875)}
    assert "triangles" in panel.note
    assert parallel("p", axes, [line("SGD", NAN, NAN, NAN)], palette(["SGD"])).empty


def test_several_against_one() -> None:
    untuned, usual = line("untuned", 200.0, 95.0, 90.0, 88.0), line("median", 300.0, 97.0, 89.0, 87.0)
    panel = against("a", untuned, [line("SGD", 1e24, 1e20, 91.0, 89.0)], usual, LOSS)
    strict(panel)
    assert [row["x"] for row in panel.datasets["untuned"]] == [1, 2, 3, 4]
    low, high = panel.spec["encoding"]["y"]["scale"]["domain"]
    assert 80 < low < 87
    assert 97 < high < 110  # the first run is steep, and one optimizer far away
    assert against("a", line("u", NAN), [], line("m", NAN), LOSS).empty
