"""Largest absolute element of any g_n."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Shortcut, Statistic
from cockpit.layers.forms import AnyForm, Factored, Indexed, wide


def _chunk(g: Tensor, at: At) -> Tensor:
    return g.abs().amax()


def _rows(rows: Indexed, at: At) -> Tensor:
    return rows.value.abs().amax() if rows.value.numel() else rows.value.new_zeros(())


def _largest_factors(form: AnyForm, at: At, elements: int) -> Shortcut | None:
    """The largest element of an outer product is the product of the largest."""
    if not isinstance(form, Factored) or form.row.shape[2] != 1:
        return None
    return Shortcut(form.row.numel() + form.col.numel(), partial(_compute, form))


def _compute(form: Factored) -> Tensor:
    row, col = (wide(factor).abs().amax(3) for factor in (form.row, form.col))
    return (row * col).amax() * abs(form.factor)


def _stacked(g: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
    return g.abs().amax((1, 2))


ABS_MAX = Statistic(
    "abs_max", "total", _chunk, join=torch.maximum, rows=_rows, shortcut=_largest_factors, stacked=_stacked
)
