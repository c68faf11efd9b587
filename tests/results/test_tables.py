"""Cells of a table."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.results.samples import made, several

from cockpit.core.errors import CockpitError
from cockpit.results.tables import by_problem, number, only, shown, table, unit


def test_the_best_setting_of_each() -> None:
    found = table(several(("SGD", "Adam"), seeds=3, rates=(0.1, 1.0)))
    assert found.problems == ("fmnist_2c2d",)
    assert found.optimizers == ("Adam", "SGD")
    cell = found.cells["fmnist_2c2d", "Adam"]
    assert cell.hyperparameters == {"lr": 0.1}
    assert cell.seeds == 3
    assert cell.performance == pytest.approx(0.9 - 0.3 * math.exp(-10 / 3) - 0.01 - 0.001 - 0.001)
    assert cell.pace == "> 10"
    assert cell.published is None


def test_own_runs_are_not_hidden_by_imported_ones() -> None:
    own, old = made("SGD", [2.0, 1.0, 0.5]), made("SGD", [2.0, 1.0, 0.1], source="deepobs 1.1")
    found = table([own, old, made("Adam", source="deepobs 1.2")])
    assert found.optimizers == ("Adam (deepobs 1.2)", "SGD", "SGD (deepobs 1.1)")
    ends = {column: (cell.optimizer, cell.performance) for (_, column), cell in found.cells.items()}
    assert (ends["SGD"], ends["SGD (deepobs 1.1)"]) == (("SGD", 0.5), ("SGD", 0.1))
    assert table([old], published=True).optimizers == ("SGD",)  # from one source there is nothing to tell apart


def test_order_and_choice() -> None:
    runs = [made(problem=name) for name in ("zebra", "mnist_vae", "apple", "quadratic_deep")]
    assert list(by_problem(runs)) == ["quadratic_deep", "mnist_vae", "apple", "zebra"]
    assert table(runs, ["zebra", "apple"]).problems == ("zebra", "apple")
    with pytest.raises(CockpitError, match="unknown problem in these results 'zebr'; did you mean 'zebra'"):
        table(runs, ["zebr"])
    with pytest.raises(CockpitError, match="unknown optimizer in these results 'Adam'"):
        table(runs, optimizers=["Adam"])


def test_published_figures() -> None:
    assert _cell(published=True, variant={"validation": False}) == "5.2"
    assert _cell(published=True) == "B.2"
    assert _cell(published=False) is None


def _cell(published: bool, **changes: object) -> str | None:
    runs = [made("Adam", accuracies=[0.1, 0.5, 0.9], **changes)]  # type: ignore[arg-type]
    known = table(runs, published=published).cells["fmnist_2c2d", "Adam"].published
    return known.table if known else None


def test_what_is_said_without_a_number() -> None:
    lost = [made("SGD", [2.0], diverged=1, seed=1), made("SGD", seed=2)]
    waiting = [made("Adam", complete=False)]
    cells = table([*lost, *waiting]).cells
    assert cells["fmnist_2c2d", "SGD"].outcome == "diverged (1 of 2)"
    assert cells["fmnist_2c2d", "Adam"].outcome == "unfinished"
    assert cells["fmnist_2c2d", "Adam"].pace == "–"


def test_settings_tell_lengths_and_batches_where_they_differ() -> None:
    runs = [made("SGD", batch_size=64), made("SGD", lr=0.5, batch_size=128), made("Adam", epochs=99, batch_size=64)]
    cells = table(runs).cells
    assert cells["fmnist_2c2d", "Adam"].settings == "lr 0.1, epochs 99, batch 64"
    assert "batch" not in table(runs[:1]).cells["fmnist_2c2d", "SGD"].settings


def test_settings_name_what_is_special() -> None:
    run = made(lr=2.511886e-05, schedule="cosine", variant={"order": "fixed"})
    assert table([run]).cells["fmnist_2c2d", "SGD"].settings == "lr 2.51e-5, schedule cosine, order fixed"
    other = made(variant={"order": "fixed"}, source="deepobs 1.1")
    assert table([other]).cells["fmnist_2c2d", "SGD"].settings == "lr 0.1 (deepobs 1.1)"


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("test_accuracy", 0.92341, "92.34"),
        ("test_loss", 87.397, "87.40"),
        ("test_loss", 0.0123456, "0.01235"),
        ("test_loss", 7e23, "7e+23"),
        ("test_loss", 0.0, "0.00"),
        ("test_loss", math.nan, "–"),
    ],
)
def test_numbers(metric: str, value: float, text: str) -> None:
    assert shown(metric, value) == text


def test_all_settings() -> None:
    found = table(several(rates=(1.0, 0.1)), every=True)
    listed = [(one.optimizer, one.rank, one.hyperparameters["lr"]) for one in found.listed]
    assert listed == [("Adam", 1, 0.1), ("Adam", 2, 1.0), ("SGD", 1, 0.1), ("SGD", 2, 1.0)]
    assert found.cells["fmnist_2c2d", "Adam"] == found.listed[0]
    assert table(several(rates=(1.0, 0.1))).listed == (found.listed[0], found.listed[2])


def test_only_some() -> None:
    runs = [made("SGD"), made("SGD", schedule="cosine"), made("Adam", schedule="cosine")]
    assert only(runs) == runs
    assert only(runs, ["cosine"]) == runs[1:]
    assert only(runs, ["cosine"], ["SGD"]) == [runs[1]]
    with pytest.raises(CockpitError, match="unknown schedule in these results 'cosin'; did you mean 'cosine'"):
        only(runs, ["cosin"])
    with pytest.raises(CockpitError, match="unknown optimizer in these results 'SDG'"):
        only(runs, optimizers=["SDG"])


def test_units() -> None:
    assert unit("test_accuracy") == "test accuracy (%)"
    assert unit("train_loss") == "train loss"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0123456, "0.0123"),
        (1e-8, "1e-08"),
        (0.9, "0.9"),
        (0.922134, "0.922"),
        (0.999, "0.999"),
        (0.99957, "0.99957"),  # three digits would be 1
        (0.9999999, "0.9999999"),
        (1.0, "1"),
        (3, "3"),
        ("word", "word"),
    ],
)
def test_a_number(value: Any, said: str) -> None:
    assert number(value) == said
