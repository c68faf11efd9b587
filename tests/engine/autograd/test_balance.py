"""A difference between the samples' sum and the gradient is seen, whatever the form."""

from __future__ import annotations

import pytest
import torch
from tests.engine.statistics.test_scan import FORMS
from torch import Tensor

from cockpit.engine.autograd.balance import imbalance, rounding_of
from cockpit.layers.forms import AnyForm, Factored
from cockpit.layers.parts import total


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_imbalance(form: AnyForm) -> None:
    gradient = total(form)
    lengths = float(form.form(0, form.samples).reshape(form.samples, -1).norm(dim=1).sum())
    allowed = rounding_of(gradient, None) * lengths + 1e-15
    assert float(imbalance(form, gradient).norm()) <= allowed
    for off in missing(gradient):
        assert float(imbalance(form, gradient + off).norm()) > max(0.3 * float(off.norm()), allowed)


def missing(gradient: Tensor) -> list[Tensor]:
    """Something everywhere, in one row, in one element."""
    everywhere = torch.linspace(0.5, 1, max(1, gradient.numel())).to(gradient.dtype).reshape(gradient.shape)
    if not gradient.shape:
        return [everywhere]
    row, element = torch.zeros_like(gradient), torch.zeros_like(gradient)
    row[0], element.view(-1)[-1] = everywhere[0], 1.0
    return [row, element]


def test_a_scaled_loss_in_half_precision() -> None:
    """Sums over rows are larger than the gradient, and float16 ends at 65,504."""
    row, col = torch.full((4, 1, 3, 64), 200.0).half(), torch.full((4, 1, 3, 8), 20.0).half()
    form = Factored((64, 8), row, col)
    gradient = torch.einsum("ngto,ngti->oi", row.double(), col.double())
    off = imbalance(form, gradient.half())
    assert float(off.norm()) <= rounding_of(gradient, torch.float16) * float(gradient.norm())
