"""A user's own statistic: one value, on every kind of layer."""

from __future__ import annotations

import pytest
import torch
from tests.cases import CASES, Case
from tests.engine.walked import USUAL, Trial
from tests.reference.run import reference_steps
from tests.test_table import allowed
from tests.watched import watched_run
from torch import Tensor, nn

from cockpit.core.errors import CockpitError
from cockpit.engine.observation import Observation
from cockpit.engine.statistics import At, Statistic, finished
from cockpit.quantities._base import SingleStepQuantity

FOURTH = Statistic("fourth_moment", "element", lambda g, at: g.pow(4).sum(0))
LARGE = Statistic(
    "large", "sample", lambda g, at: (g.abs() > at.parameter.abs() + 1e-9).reshape(len(g), -1).sum(1).to(g)
)
KURTOSIS = finished("kurtosis", FOURTH, lambda total, at: total.sum())


class Seen(SingleStepQuantity):
    """Everything that the three statistics give, summed."""

    needs = frozenset({FOURTH, LARGE, KURTOSIS})

    def measure(self, step: Observation) -> dict[str, float]:
        fourth = sum(float(total.double().sum()) for total in step.elements(FOURTH).values())
        return {"fourth": fourth, "large": float(step.total(LARGE).sum()), "kurtosis": float(step.rows(KURTOSIS).sum())}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_one_line_on_every_net(case: Case) -> None:
    """Right, or undefined where the histogram of all individual gradients may be."""
    try:
        records = {
            record.step: record for record in watched_run(case, [Seen()], run=False).history if record.name == "Seen"
        }
    except CockpitError:
        assert case.may_refuse
        return
    for number, step in enumerate(reference_steps(case)):
        if records[number].value is None:
            assert allowed(case, "GradHist1d", records[number].reason or "")
            continue
        fourth = sum(float(g.pow(4).sum()) for g in step.g_n.values())
        large = sum(float((g.abs() > step.theta[key].abs() + 1e-9).sum()) for key, g in step.g_n.items())
        expected = {"fourth": fourth, "large": large, "kurtosis": fourth}
        assert records[number].value == pytest.approx(expected, rel=max(1e-7, 10 * case.tolerance), nan_ok=True)


def test_two_statistics_of_one_name_are_an_error() -> None:
    def another(g: Tensor, at: At) -> Tensor:
        return g.reshape(len(g), -1).sum(1)

    net = nn.Linear(3, 2)
    trial = Trial(net, USUAL | {Statistic("sq_norm", "sample", another)})
    seen = trial.step(lambda: net(torch.randn(4, 3)).sum())
    assert "two statistics are called 'sq_norm'" in (seen.flaw or "")
