"""||g_n||^2, [N]."""

from collections.abc import Mapping
from functools import partial
from math import prod

import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Shortcut, Statistic
from cockpit.engine.statistics.lengths import square_rows, sums_well
from cockpit.layers.forms import AnyForm, Convolved, Factored, Indexed, Scratch, wide


def _chunk(g: Tensor, at: At) -> Tensor:
    rows = g.reshape(len(g), -1)
    if sums_well(rows, rows.shape[1]):
        norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
        return norms.square()
    return square_rows(rows).to(g.dtype)


def _rows(rows: Indexed, at: At) -> Tensor:
    return rows.value.new_zeros(rows.samples).index_add_(0, rows.sample, rows.value.square().sum(1))


def _inner_products(form: AnyForm, at: At, elements: int) -> Shortcut | None:
    """sum over pairs of positions of (row_t . row_s) (col_t . col_s)."""
    if isinstance(form, Factored):
        groups, positions, sizes = *form.row.shape[1:3], form.row.shape[3] + form.col.shape[3]
    elif isinstance(form, Convolved):
        groups, positions, sizes = form.groups, form.positions, form.shape[0] // form.groups + prod(form.shape[1:])
    else:
        return None
    operations = form.samples * groups * positions**2 * sizes
    return Shortcut(operations, partial(_compute, form, groups, positions, elements))


def _compute(form: Factored | Convolved, groups: int, positions: int, elements: int) -> Tensor:
    if isinstance(form, Factored) and positions == 1:
        norms = wide(form.row).square().sum(3) * wide(form.col).square().sum(3)
        return norms.sum((1, 2)) * form.factor**2
    step, scratch = max(1, elements // max(1, groups * positions**2, form.size)), Scratch()
    parts = []
    for begin in range(0, form.samples, step):
        end = min(form.samples, begin + step)
        if isinstance(form, Factored):
            row, col = (wide(factor[begin:end]).flatten(0, 1) for factor in (form.row, form.col))
        else:
            row, col = (factor.mT for factor in form.factors(begin, end, scratch))
        parts.append(((row @ row.mT).mul_(col @ col.mT)).view(end - begin, -1).sum(1))
    return torch.cat(parts) * form.factor**2


def _stacked(g: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(g, dim=2)
    return norms.square()


SQ_NORM = Statistic("sq_norm", "sample", _chunk, rows=_rows, shortcut=_inner_products, stacked=_stacked)
