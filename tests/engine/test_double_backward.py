"""Estimators of the curvature against the exact diagonal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from cockpit import watch
from cockpit.quantities import HessMaxEV, HessTrace, TICDiag


def trained(quantities: list[Any], seed: int = 0) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    optimizer, loss_fn = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    with watch(model, optimizer, loss_fn, quantities=quantities, every=1, seed=seed) as pit:
        loss_fn(model(torch.randn(6, 5).double()), torch.randint(0, 3, (6,))).backward()
        optimizer.step()
    return pit.history.series(quantities[0].name)[0]


@pytest.mark.parametrize(("estimate", "exact"), [("hutchinson", "hessian"), ("ggn_mc", "ggn")])
def test_estimates_are_unbiased_and_their_error_is_honest(estimate: str, exact: str) -> None:
    true = trained([HessTrace(curvature=exact)]).value
    record = trained([HessTrace(curvature=estimate, samples=400)])
    errors = record.details["standard_error"]
    for name, value in true.items():
        assert abs(record.value[name] - value) < 5 * errors[name] + 1e-9
    assert max(errors.values()) > 1e-3
    assert record.details["curvature"] == estimate


def test_the_original_names_are_accepted() -> None:
    names = {"diag_ggn_exact": "ggn", "diag_h": "hessian", "diag_ggn_mc": "ggn_mc"}
    for original, ours in names.items():
        assert HessTrace(curvature=original).curvature == ours
        assert TICDiag(curvature=original).curvature == ours


def test_estimates_depend_on_the_seed_alone() -> None:
    one, same, other = (trained([HessTrace(curvature="hutchinson")], seed).value for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_the_eigenvalue_says_what_it_took() -> None:
    record = trained([HessMaxEV()])
    assert record.details["products"] >= 1
    assert record.details["residual"] <= 1e-3 * abs(record.value)


def test_too_many_outputs_are_refused_with_the_remedy() -> None:
    model = nn.Linear(3, 2000)
    optimizer, loss_fn = torch.optim.SGD(model.parameters(), lr=0.1), nn.MSELoss()
    with watch(model, optimizer, loss_fn, quantities=["HessTrace"], every=1) as pit:
        loss_fn(model(torch.randn(4, 3)), torch.randn(4, 2000)).backward()
        optimizer.step()
    assert "hutchinson" in pit.history.series("HessTrace")[0].reason


def test_a_loss_that_compares_samples_is_refused() -> None:
    class Contrast(nn.Module):
        def forward(self, outputs: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return (outputs @ outputs.mT).logsumexp(1).mean()

    model, loss_fn = nn.Linear(3, 2), Contrast()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, loss_fn, quantities=["HessTrace", "NormTest"], every=1) as pit:
        loss_fn(model(torch.randn(4, 3)), torch.zeros(4)).backward()
        optimizer.step()
    assert "couples the samples" in pit.history.series("HessTrace")[0].reason
    assert pit.history.series("NormTest")[0].value is not None
