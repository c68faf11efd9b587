"""Seeds taken together, against plain arithmetic and against the published table."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from tests.results.samples import baselines, made

from cockpit.core.errors import CockpitError
from cockpit.results.published import Published, table52
from cockpit.results.summary import (
    TARGETS,
    best_setting,
    having,
    joined,
    judge,
    performance,
    ranked,
    sensitivity,
    settings,
    shared_seeds,
    speed,
    spread,
)

ENDS = (0.5, 0.7, 0.9, 0.6)


@pytest.mark.parametrize("entry", table52(), ids=lambda entry: f"{entry.problem}-{entry.optimizer}")
def test_table_5_2_is_recomputed_from_the_authors_runs(entry: Published) -> None:
    """To the printed digits: performance, speed and learning rate; and the deviation to those of the shipped table."""
    found = best_setting(baselines(), entry.problem, entry.optimizer)
    unit = 100 if entry.metric == "test_accuracy" else 1
    assert len(found.results) == 10
    assert found.metric == entry.metric
    assert f"{unit * performance(found):.2f}" == f"{unit * entry.mean:.2f}"
    assert f"{unit * spread(found):.4f}" == f"{unit * entry.std:.4f}"
    assert f"{speed(found):.1f}" == f"{entry.speed:.1f}"
    assert f"{found.hyperparameters['lr']:.2e}" == f"{entry.lr:.2e}"


def test_the_grid_of_the_authors_is_36_rates() -> None:
    for entry in table52():
        points = sensitivity(baselines(), entry.problem, entry.optimizer)
        assert len(points) == 36  # rates that differ in the last digit are one
        assert [len(point.setting.results) for point in points].count(10) == 1


def test_statistics_over_seeds() -> None:
    (setting,) = settings(made(losses=[2.0, end, end / 2], seed=seed) for seed, end in enumerate(ENDS))
    curve = setting.curve("test_loss")
    assert curve.mean == pytest.approx([2.0, statistics.mean(ENDS), statistics.mean(ENDS) / 2])
    assert curve.std[1] == pytest.approx(statistics.pstdev(ENDS))
    assert curve.median[1] == pytest.approx(statistics.median(ENDS))
    assert (curve.lower[1], curve.upper[1]) == pytest.approx(tuple(np.percentile(ENDS, [25, 75])))
    assert curve.seeds.tolist() == [4, 4, 4]
    assert performance(setting) == pytest.approx(statistics.mean(ENDS) / 2)
    assert spread(setting) == pytest.approx(statistics.pstdev(ENDS) / 2)


def test_what_makes_a_setting() -> None:
    same = [made(seed=1, lr=0.1), made(seed=2, lr=0.1 + 1e-16), made(seed=3, lr=0.1 * (1 + 1e-12))]
    others = [
        made(lr=0.2),
        made("Adam"),
        made(schedule="cosine"),
        made(batch_size=64),
        made(epochs=3),
        made(variant={"order": "fixed"}),
        made(source="deepobs 1.1"),
        made(problem="mnist_mlp"),
    ]
    found = settings([*same, *others])
    assert len(found) == 9
    assert [one.seed for one in found[0].results] == [1, 2, 3]
    assert len(settings([made(), made(losses=[1.0])])[0].results) == 1  # the later of one run counts


def test_a_diverged_seed_is_not_averaged_away() -> None:
    runs = [made(seed=1), made(seed=2, losses=[2.0, 1.0], diverged=2)]
    (setting,) = settings(runs)
    assert math.isnan(performance(setting))
    assert math.isnan(spread(setting))
    assert setting.diverged == 1
    assert setting.curve().mean[:2].tolist() == [2.0, 1.0]
    assert math.isnan(setting.curve().mean[2])


def test_an_unfinished_seed_waits() -> None:
    (setting,) = settings([made(seed=1), made(seed=2, losses=[2.0, 0.0], complete=False)])
    assert performance(setting) == 0.5
    assert setting.curve().mean.tolist() == [2.0, 0.5, 0.5]
    assert setting.curve().seeds.tolist() == [2, 2, 1]
    (alone,) = settings([made(complete=False)])
    assert math.isnan(performance(alone))
    assert math.isnan(speed(alone, 1.0))


def test_speed() -> None:
    rising = [made(accuracies=[0.1, 0.8, 0.9], seed=1), made(accuracies=[0.1, 0.95, 0.9], seed=2)]
    (setting,) = settings(rising)
    assert speed(setting, 0.9) == 1.5
    assert speed(setting, 0.95) == 2.0  # one seed never gets there: 2 epochs + 1
    assert speed(setting) == 2.0  # the problem's own target
    (falling,) = settings([made(losses=[2.0, 1.0, 0.5])])
    assert speed(falling, 1.0) == 1.0
    assert math.isnan(speed(settings([made(problem="my_own")])[0]))
    assert speed(settings([made(problem="my_own", target=1.0)])[0]) == 1.0
    assert speed(settings([made(losses=[99.0, 87.8, 87.7], problem="quadratic_deep")])[0]) == 2.0
    assert speed(settings([made(losses=[99.0, 87.8, 87.7], problem="quadratic_deep", target=88.0)])[0]) == 1.0


def test_the_published_targets() -> None:
    """Each by its digits, so that none changes unseen."""
    assert TARGETS == {
        "quadratic_deep": 87.70315464772136,
        "mnist_vae": 73.49819796869767,
        "fmnist_2c2d": 0.9198093278634639,
        "cifar10_3c3d": 0.8283307079578206,
        "fmnist_vae": 92.97764997362836,
        "cifar100_allcnnc": 0.5256043511573971,
        "svhn_wrn164": 0.9501991843298437,
        "tolstoi_char_rnn": 0.6045863566200845,
    }


def test_ranking() -> None:
    late = made("SGD", [2.0, 0.9, 0.4], lr=0.1)
    early = made("SGD", [2.0, 0.1, 0.5], lr=0.2)
    often = [made("SGD", [2.0, 1.0, 0.6], lr=0.3, seed=seed) for seed in range(3)]
    lost = made("SGD", [2.0], lr=9.0, diverged=1)
    found = settings([lost, early, late, *often])
    rates = {mode: [one.hyperparameters["lr"] for one in ranked(found, mode)] for mode in ("final", "best", "most")}
    assert rates == {"final": [0.1, 0.2, 0.3, 9.0], "best": [0.2, 0.1, 0.3, 9.0], "most": [0.3, 0.1, 0.2, 9.0]}
    assert ranked(found) == ranked(found, "shared")
    with pytest.raises(CockpitError, match="unknown mode 'last'"):
        ranked(found, "last")  # type: ignore[arg-type]
    with pytest.raises(CockpitError, match="several problems"):
        ranked(settings([made(), made(problem="mnist_mlp")]))


def test_settings_are_compared_over_the_seeds_that_all_have() -> None:
    """A lucky single seed does not come before a mean of ten: it is compared with the same seed of the others."""
    tuned = [made(losses=[2.0, 0.5 + 0.1 * (seed > 42)], lr=0.1, seed=seed) for seed in range(42, 52)]
    lucky, other = made(losses=[2.0, 0.55], lr=0.2), made(losses=[2.0, 0.1], lr=0.3, seed=7)
    found = settings([lucky, *tuned, other])
    assert shared_seeds(found) == (42,)
    assert [one.hyperparameters["lr"] for one in ranked(found)] == [0.1, 0.2, 0.3]  # by 0.5, 0.55, and not comparable
    assert [one.hyperparameters["lr"] for one in ranked(found, "final")] == [0.3, 0.2, 0.1]
    again = [*tuned, made(losses=[2.0, 0.55], lr=0.2), made(losses=[2.0, 0.9], lr=0.2, seed=43)]
    assert shared_seeds(settings(again)) == (42, 43)
    assert shared_seeds(settings([made(complete=False)])) == ()
    assert shared_seeds([]) == ()


def test_settings_are_chosen_on_the_validation_set_where_there_is_one() -> None:
    fits = made(accuracies=[0.1, 0.5, 0.9], lr=0.1)
    good = made(accuracies=[0.1, 0.5, 0.8], lr=0.2)
    fits.curves["valid_accuracy"], good.curves["valid_accuracy"] = [0.1, 0.5, 0.6], [0.1, 0.5, 0.7]
    assert best_setting([fits, good], "fmnist_2c2d", "SGD").hyperparameters["lr"] == 0.2
    without = made(accuracies=[0.1, 0.5, 0.7], lr=0.3)
    assert judge(settings([fits, good])) == "valid_accuracy"
    assert judge(settings([fits, good, without])) == "test_accuracy"
    assert best_setting([fits, good, without], "fmnist_2c2d", "SGD").hyperparameters["lr"] == 0.1


def test_unknown_names() -> None:
    with pytest.raises(CockpitError, match="unknown problem 'mnist'"):
        best_setting([made()], "mnist", "SGD")
    with pytest.raises(CockpitError, match="unknown optimizer on fmnist_2c2d 'Adam'"):
        best_setting([made()], "fmnist_2c2d", "Adam")
    with pytest.raises(CockpitError, match="known: lr"):
        sensitivity([made()], "fmnist_2c2d", "SGD", "momentum")


def test_sensitivity() -> None:
    runs = [
        made(losses=[2.0, 1.0, 0.5], lr=0.1),
        made(losses=[2.0, 1.5, 1.0], lr=0.01),
        made(losses=[2.0], lr=1.0, diverged=1),
    ]
    points = sensitivity(runs, "fmnist_2c2d", "SGD")
    assert [point.value for point in points] == [0.01, 0.1, 1.0]
    assert [point.mean for point in points] == pytest.approx([1.0, 0.5, math.nan], nan_ok=True)
    assert sensitivity(runs, "fmnist_2c2d", "Adam") == []
    rising = [made(accuracies=[0.1, 0.2, 0.45], lr=0.1), made(accuracies=[0.1, 0.2, 0.9], lr=0.2)]
    assert [point.mean for point in sensitivity(rising, "fmnist_2c2d", "SGD")] == [0.45, 0.9]
    worse = [made(losses=[2.0, 1.0, 2.5], lr=0.1), made(losses=[2.0, 1.0, 1.5], lr=0.1, seed=43)]
    assert sensitivity(worse, "fmnist_2c2d", "SGD")[0].ends.tolist() == pytest.approx([math.nan, 1.5], nan_ok=True)


def test_what_a_line_may_go_through() -> None:
    grid = [made(lr=0.1), made(lr=0.2)]
    assert joined(sensitivity(grid, "fmnist_2c2d", "SGD"), "lr")
    random = [replace(made(), hyperparameters={"lr": rate, "beta": rate}) for rate in (0.1, 0.2)]
    assert not joined(sensitivity(random, "fmnist_2c2d", "SGD"), "lr")
    twice = [*grid, made(lr=0.1, schedule="cosine")]
    assert not joined(sensitivity(twice, "fmnist_2c2d", "SGD"), "lr")


def test_who_has_a_hyperparameter() -> None:
    runs = [made("SGD"), replace(made("Momentum"), hyperparameters={"lr": 0.1, "momentum": 0.9})]
    assert having(runs, "fmnist_2c2d", "lr") == ["Momentum", "SGD"]
    assert having(runs, "fmnist_2c2d", "momentum") == ["Momentum"]
    assert having(runs, "mnist_vae", "momentum") == []
    with pytest.raises(CockpitError, match="unknown hyperparameter on fmnist_2c2d 'momentun'; did you mean 'momentum'"):
        having(runs, "fmnist_2c2d", "momentun")
