"""Published figures."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from importlib.resources import files

import pytest

from cockpit.results.published import IMPOSSIBLE, LEAST, crowded_valley, nearest, table52


def test_table_5_2() -> None:
    table = table52()
    assert len(table) == 24
    assert Counter(entry.optimizer for entry in table) == {"SGD": 8, "Momentum": 8, "Adam": 8}
    (entry,) = [one for one in table if (one.problem, one.optimizer) == ("fmnist_2c2d", "Adam")]
    assert (entry.metric, entry.mean, entry.speed, entry.lr) == ("test_accuracy", pytest.approx(0.9234), 40.1, 2.51e-4)
    assert all(entry.lr and entry.speed and entry.schedule == "constant" for entry in table)


def test_crowded_valley() -> None:
    table = crowded_valley()
    assert Counter(entry.table for entry in table) == dict.fromkeys(("B.2", "B.3", "B.4", "B.5", "B.6"), 120)
    assert len({entry.optimizer for entry in table}) == 15
    assert {entry.metric for entry in table} == {"test_accuracy", "test_loss", "train_loss"}
    assert all(0 < one.mean < 1 for one in table if one.metric == "test_accuracy")
    (wild,) = [entry for entry in table if entry.mean > 1e9]
    assert (wild.table, wild.optimizer, wild.mean) == ("B.5", "Adagrad", 7e23)
    assert all(math.isfinite(entry.std) for entry in table)


@pytest.mark.parametrize(
    ("name", "digest"),
    [("table52.csv", "11a7a47dc3cd2193"), ("crowded_valley.csv", "811fbc441c172d28")],
)
def test_every_figure_is_as_it_was_printed(name: str, digest: str) -> None:
    """Rows in any order; any other figure, or a row more or less, is seen."""
    file = files("cockpit.results") / "published" / name
    rows = sorted(file.read_text(encoding="utf-8").split())
    assert hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16] == digest


def test_figures_that_cannot_be_compared() -> None:
    """Of the quadratic, but not of optimizers that were tuned once more; means below the least loss there is."""
    odd = [one for one in [*table52(), *crowded_valley()] if one.caveat]
    assert {one.problem for one in odd} == {"quadratic_deep"}
    assert len(odd) == 5 * 9
    impossible = [one for one in odd if one.caveat == IMPOSSIBLE]
    assert len(impossible) == 20
    assert all(one.metric == "test_loss" and one.mean < LEAST for one in impossible)
    assert min(one.mean for one in crowded_valley() if one.problem == "quadratic_deep" and not one.caveat) > 84


def test_a_caller_cannot_change_them() -> None:
    table52().clear()
    assert len(table52()) == 24


def test_the_nearest_protocol() -> None:
    asked = ("fmnist_2c2d", "Adam", "test_accuracy")
    assert _table(*asked, variant={"validation": False}) == "5.2"
    assert _table(*asked) == "B.2"
    assert _table(*asked, schedule="cosine") == "B.4"
    assert _table(*asked, schedule="trapezoidal") == _table(*asked, schedule="ltr") == "B.5"
    assert _table(*asked, schedule="0.1@50") is None
    assert _table("fmnist_2c2d", "RMSprop", "test_accuracy", variant={"validation": False}) == "B.2"  # not in 5.2
    assert _table("fmnist_2c2d", "Adam", "train_loss") == "B.6"
    assert _table("mnist_mlp", "Adam", "test_accuracy") is None


def _table(problem: str, optimizer: str, metric: str, schedule: str = "constant", variant: object = None) -> str | None:
    found = nearest(problem, optimizer, metric, schedule, variant)  # type: ignore[arg-type]
    return found.table if found else None
