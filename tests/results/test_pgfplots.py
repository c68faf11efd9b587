"""Figures that LaTeX draws."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from tests.results.samples import baselines, made, several
from tests.results.tex import check

from cockpit.core.errors import CockpitError
from cockpit.results.pgfplots import POINTS, learning_curves, rate_sensitivity


def test_curves() -> None:
    source = learning_curves(several(seeds=3))
    assert check(source) == ["document", "tikzpicture", "groupplot"]
    assert "group size=1 by 4" in source
    assert source.count("\\nextgroupplot[") == 4
    assert source.count("fill between") == 8  # four panels, two optimizers
    assert "title={fmnist\\_2c2d}" in source
    assert "ylabel={test accuracy (\\%)}" in source
    assert source.count("xlabel={epoch}") == 1
    assert "(10,88.7" in source


def test_one_seed_has_no_band() -> None:
    source = learning_curves(several(("SGD",), seeds=1))
    check(source)
    assert "fill between[" not in source
    assert source.count("\\addplot") == 4


def test_problems_without_accuracy_leave_places_empty() -> None:
    source = learning_curves([*several(("SGD",)), made("SGD", problem="mnist_vae")])
    check(source)
    assert "group size=2 by 4" in source
    assert source.count("group/empty plot") == 2
    assert source.count("xlabel={epoch}") == 2


def test_every_point_is_a_pair_of_numbers() -> None:
    source = learning_curves([*several(seeds=2), made("RMSprop", [2.0, 1.0], [0.1, 0.5], diverged=2)])
    for coordinates in re.findall(r"coordinates \{(.*?)\}", source):
        for pair in coordinates.split():
            assert re.fullmatch(r"\([-+.e\d]+,[-+.e\d]+\)", pair), pair


def test_long_curves_are_thinned() -> None:
    long = made("SGD", [2 - epoch / 1000 for epoch in range(1001)], epochs=1000)
    (line,) = re.findall(r"thick\] coordinates \{(.*?)\}", learning_curves([long]))[:1]
    assert len(line.split()) <= POINTS + 1
    assert line.endswith("(1000,1)")


def test_sensitivity() -> None:
    runs = [made(losses=[2.0, end], lr=rate) for rate, end in ((0.01, 1.0), (0.1, 0.5), (1.0, 2.5), (10.0, math.nan))]
    source = rate_sensitivity([*runs[:3], replace(runs[3], diverged=1)])
    assert check(source) == ["document", "tikzpicture", "groupplot"]
    assert "xmode=log, ymin=0.475, ymax=1.025, xlabel={lr}, ylabel={test loss}" in source
    assert "unbounded coords=jump] coordinates {(0.01,1) (0.1,0.5) (1,nan) (10,nan)}" in source
    assert "only marks, mark size=0.8pt] coordinates {(0.01,1) (0.1,0.5)}" in source
    assert "mark=x, thick] coordinates {(1,1.025) (10,1.025)}" in source  # worse than at the start, and diverged
    assert "ymode=log" in rate_sensitivity([made(losses=[9.0, end], lr=end) for end in (0.001, 1.0)])
    check(rate_sensitivity([replace(runs[3], diverged=1)]))


def test_the_authors_baselines() -> None:
    check(learning_curves(baselines(), ["quadratic_deep", "fmnist_2c2d"], "most"))
    check(rate_sensitivity(baselines(), ["quadratic_deep", "fmnist_2c2d"]))


def test_baselines_and_published_figures() -> None:
    old = [replace(one, source="deepobs 1.1") for one in several(("SGD",))]
    source = learning_curves(several(("Adam",)), baselines=old, published=True)
    check(source)
    assert "SGD, deepobs 1.1" in source
    assert source.count("\\addplot[gray, dashed, thick]") == 4
    assert "mark=diamond" not in source  # that is after 100 epochs
    full = [made("Adam", [2.0] * 101, [0.9] * 101, epochs=100)]
    assert "only marks, mark=diamond, thick] coordinates {(100,91.69)}" in learning_curves(full, published=True)
    assert "mark=diamond" not in learning_curves(full)
    behind = rate_sensitivity(several(("Adam",)), baselines=old)
    check(behind)
    assert "gray, dashed, unbounded coords=jump" in behind


def test_settings_that_differ_in_more_are_not_joined() -> None:
    runs = [
        replace(one, hyperparameters={"lr": 0.1 * (place + 1), "k": place})
        for place, one in enumerate(several(("SGD",)))
    ]
    assert "jump" not in rate_sensitivity(runs)
    assert "jump" in rate_sensitivity(several())


def test_nothing_to_draw() -> None:
    for draw in (learning_curves, rate_sensitivity):
        with pytest.raises(CockpitError, match="no results to draw"):
            draw([])
