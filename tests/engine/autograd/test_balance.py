"""A difference between the samples' sum and the gradient is seen, whatever the form."""

from __future__ import annotations

import pytest
import torch
from tests.engine.statistics.test_scan import FORMS
from torch import Tensor

from cockpit.engine.autograd.balance import imbalance, rounding_of
from cockpit.layers.forms import AnyForm
from cockpit.layers.parts import total


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_imbalance(form: AnyForm) -> None:
    gradient = total(form)
    lengths = float(form.form(0, form.samples).reshape(form.samples, -1).norm(dim=1).sum())
    allowed = rounding_of(gradient, None) * lengths + 1e-15
    assert float(imbalance(form, gradient)) <= allowed
    for off in missing(gradient):
        assert float(imbalance(form, gradient + off)) > max(0.3 * float(off.norm()), allowed)


def missing(gradient: Tensor) -> list[Tensor]:
    """Something everywhere, in one row, in one element."""
    everywhere = torch.linspace(0.5, 1, max(1, gradient.numel())).to(gradient.dtype).reshape(gradient.shape)
    if not gradient.shape:
        return [everywhere]
    row, element = torch.zeros_like(gradient), torch.zeros_like(gradient)
    row[0], element.view(-1)[-1] = everywhere[0], 1.0
    return [row, element]
