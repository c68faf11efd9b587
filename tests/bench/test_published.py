"""Runs of "Descending through a Crowded Valley" on the quadratic, met one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cockpit.bench import packs
from cockpit.bench.plan import make_plan
from cockpit.bench.runner import bench, train
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Variant
from cockpit.results.result import Result

EPOCHS = (1, 20, 50, 100)
# (optimizer, seed, matrix): test loss after epochs 1, 20, 50 and 100; of Lookahead the first alone can be met.
PUBLISHED: dict[tuple[str, int, int], tuple[float, ...]] = {
    ("NAdam", 42, 0): (342.6978, 222.43, 136.512, 106.5976),
    ("RMSprop", 42, 0): (337.9536, 212.5895, 117.212, 100.6034),
    ("RAdam", 43, 1): (264.7191, 244.7843, 196.164, 132.6766),
    ("Adagrad", 43, 0): (308.7387, 177.196, 132.2259, 112.1239),
    ("AMSGrad", 42, 0): (277.9078, 100.4499, 92.5233, 88.8603),
    ("NAG", 42, 1): (101.1619, 85.7338, 84.7659, 84.7267),
    ("Adadelta", 45, 2): (351.8369,),
    ("AdaBound", 43, 0): (327.4794, 93.8146, 87.444, 87.0846),
    ("AMSBound", 42, 1): (325.1477, 89.699, 83.8574, 83.4531),
    ("LA(Momentum)", 43, 0): (121.199,),
    ("LA(RAdam)", 42, 0): (208.9153,),
    ("LA(RAdam)", 44, 2): (214.71527,),
    ("AdaBelief", 42, 0): (256.88618, 191.35126, 110.19178, 102.26187),
    ("SGD", 42, 0): (106.2466, 91.37912, 88.02685, 87.29282),
    ("Momentum", 42, 0): (181.77437, 126.43615, 96.68986, 87.36469),
    ("Adam", 43, 0): (345.17719, 224.2034, 137.1401, 106.63947),
}
_TUNED = {"lr": 0.011040511903162242, "beta1": 0.6675153010433379, "beta2": 0.8404787556510415}
# (optimizer, seed, matrix, schedule): training, validation and test loss at the end.
SCHEDULED = {
    ("SGD", 42, 0, "ltr"): (85.18453652518136, 85.91193498883929, 87.32411084856305),
    ("SGD", 43, 1, "cosine_wr"): (82.09483446393695, 82.718017578125, 83.9643086024693),
    ("SGD", 51, 8, "cosine"): (83.14971814836774, 86.41757202148438, 86.38363647460938),
    ("Adam", 43, 0, "constant"): (84.71034240722656, 85.86774008614677, 87.22511291503906),
    ("Adam", 51, 8, "constant"): (82.33956364222935, 85.69378008161273, 85.54005977085659),
}


@pytest.mark.parametrize("run", PUBLISHED, ids=lambda run: f"{run[0]} {run[1]}")
def test_a_published_run(run: tuple[str, int, int], tmp_path: Path) -> None:
    optimizer, seed, matrix = run
    expected = PUBLISHED[run]
    epochs = EPOCHS[: len(expected)]
    variant = Variant(order="study", hessian=matrix)
    found = train("quadratic_deep", optimizer, seed=seed, epochs=epochs[-1], variant=variant, out=tmp_path)
    assert [found.curves["test_loss"][epoch] for epoch in epochs] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("run", SCHEDULED, ids=str)
def test_all_losses_of_a_published_run(run: tuple[str, int, int, str], tmp_path: Path) -> None:
    optimizer, seed, matrix, schedule = run
    variant = Variant(order="study", hessian=matrix)
    settings = _TUNED if optimizer == "Adam" else {}
    found = train("quadratic_deep", optimizer, seed=seed, schedule=schedule, variant=variant, out=tmp_path, **settings)
    ends = [found.curves[f"{split}_loss"][-1] for split in ("train", "valid", "test")]
    assert ends == pytest.approx(SCHEDULED[run], abs=1e-4)


# The published baselines of DeepOBS 1.1 without a validation set: rate, mean and deviation over ten seeds of the test
# loss at the end, and mean number of epochs until it is 87.703.
BASELINES = [
    ("SGD", {"lr": 0.01584893192}, 87.3975, 0.1603, 51.1),
    ("Momentum", {"lr": 0.002511886431}, 87.0450, 0.0239, 70.5),
    ("Adam", {"lr": 0.03981071706}, 87.1119, 0.0230, 39.9),
]


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda baseline: baseline[0])
def test_a_published_baseline(baseline: tuple[str, dict[str, float], float, float, float]) -> None:
    optimizer, settings, mean, deviation, speed = baseline
    variant = Variant(validation=False, order="study")
    seeds = range(42, 52)
    plans = [make_plan("quadratic_deep", optimizer, seed=seed, variant=variant, **settings) for seed in seeds]
    found = [one for one in packs.train(plans) if isinstance(one, Result)]
    ends = [one.curves["test_loss"][-1] for one in found]
    assert (np.mean(ends), np.std(ends)) == pytest.approx((mean, deviation), abs=1e-4)
    reached = [next(at for at, loss in enumerate(one.curves["test_loss"]) if loss <= 87.70315) for one in found]
    assert np.mean(reached) == pytest.approx(speed)
    first = [one.curves["train_loss"][0] for one in found]
    assert (round(np.mean(first), 2), round(np.std(first), 2)) == (353.56, 0.88)


def test_train_eval_is_what_is_trained_on(tmp_path: Path) -> None:
    stored = train("quadratic_deep", "SGD", epochs=0, out=tmp_path)
    fixed = Variant(order="fixed", shuffled_eval=True)
    own = [
        one.curves["train_loss"][0]
        for one in bench("quadratic_deep", "SGD", (1, 2), epochs=0, variant=fixed, out=tmp_path)
    ]
    assert len({*own, stored.curves["train_loss"][0]}) == 3


@pytest.mark.parametrize("problem", ["digits", "two_d_beale"])
def test_other_problems_have_no_such_order(problem: str, tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match=f"known for quadratic_deep alone, not for {problem}"):
        train(problem, "SGD", variant=Variant(order="study"), out=tmp_path)
