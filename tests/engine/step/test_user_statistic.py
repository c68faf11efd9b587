"""A user's own statistic: one value, on every kind of layer."""

from __future__ import annotations

import pytest
import torch
from tests.cases import CASES
from tests.engine.walked import USUAL, Trial
from tests.reference.run import reference_steps
from tests.watched import watched_run
from torch import Tensor, nn

from cockpit.engine.observation import Observation
from cockpit.engine.statistics import At, Statistic, finished
from cockpit.quantities._base import SingleStepQuantity

FOURTH = Statistic("fourth_moment", "element", lambda g, at: g.pow(4).sum(0))
LARGE = Statistic(
    "large", "sample", lambda g, at: (g.abs() > at.parameter.abs() + 1e-9).reshape(len(g), -1).sum(1).to(g)
)
KURTOSIS = finished("kurtosis", FOURTH, lambda total, at: total.sum())
NETS = [
    "relu_mlp", "tied_autoencoder", "layer_used_twice", "own_parameters", "weight_norm", "cnn", "conv1d",
    "conv_transpose", "resnet_batch_norm_eval", "transformer", "lstm", "gru", "embedding", "tied_language_model",
    "accumulation_uneven",
]  # fmt: skip


class Seen(SingleStepQuantity):
    """Everything that the three statistics give, summed."""

    needs = frozenset({FOURTH, LARGE, KURTOSIS})

    def measure(self, step: Observation) -> dict[str, float]:
        fourth = sum(float(total.double().sum()) for total in step.elements(FOURTH).values())
        return {"fourth": fourth, "large": float(step.total(LARGE).sum()), "kurtosis": float(step.rows(KURTOSIS).sum())}


@pytest.mark.parametrize("name", NETS)
def test_one_line_on_every_net(name: str) -> None:
    case = CASES[name]
    output = watched_run(case, [Seen()], run=False).get_output()
    for number, step in enumerate(reference_steps(case)):
        fourth = sum(float(g.pow(4).sum()) for g in step.g_n.values())
        large = sum(float((g.abs() > step.theta[key].abs() + 1e-9).sum()) for key, g in step.g_n.items())
        assert output[number]["Seen"] == pytest.approx({"fourth": fourth, "large": large, "kurtosis": fourth}, rel=1e-7)


def test_two_statistics_of_one_name_are_an_error() -> None:
    def another(g: Tensor, at: At) -> Tensor:
        return g.reshape(len(g), -1).sum(1)

    net = nn.Linear(3, 2)
    trial = Trial(net, USUAL | {Statistic("sq_norm", "sample", another)})
    seen = trial.step(lambda: net(torch.randn(4, 3)).sum())
    assert "two statistics are called 'sq_norm'" in (seen.flaw or "")
