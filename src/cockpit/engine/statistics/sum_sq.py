"""sum_n g_n^2, elementwise."""

from collections.abc import Mapping
from functools import partial
from math import prod

import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Shortcut, Statistic
from cockpit.layers.forms import AnyForm, Factored, Indexed, wide


def _chunk(g: Tensor, at: At) -> Tensor:
    return g.square().sum(0)


def _rows(rows: Indexed, at: At) -> Tensor:
    summed = rows.value.new_zeros(rows.shape[0], rows.value.shape[1])
    return summed.index_add_(0, rows.index, rows.value.square()).reshape(rows.shape)


def _squared_factors(form: AnyForm, at: At, elements: int) -> Shortcut | None:
    """The square of an outer product is the outer product of the squares."""
    if not isinstance(form, Factored) or form.row.shape[2] != 1:
        return None
    return Shortcut(form.samples * prod(form.shape), partial(_compute, form))


def _compute(form: Factored) -> Tensor:
    row, col = (wide(factor).square() for factor in (form.row[:, :, 0], form.col[:, :, 0]))
    return torch.einsum("ngo,ngi->goi", row, col).reshape(form.shape) * form.factor**2


def _stacked(g: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
    return g.square().sum(1)


SUM_SQ = Statistic("sum_sq", "element", _chunk, rows=_rows, shortcut=_squared_factors, stacked=_stacked)
