"""Inner products of per-sample gradients from inner products of their factors: nothing of size N x D is formed.

<row_n col_n^T, row_m col_m^T> = (row_n . row_m) (col_n . col_m), for every pair of positions of the two samples.
"""

from math import prod

import torch
from torch import Tensor

from cockpit.engine import native
from cockpit.layers.forms import Convolved, Factored, Scratch, wide

BLOCK = 2**22  # inner products that are held at once
NEAR = 2**18  # numbers that a processor's second cache holds


def mean_is_cheaper(form: Factored, other: Factored, vector_known: bool) -> bool:
    """Whether all pairs of rows take fewer operations than <g_n, v>, and making v if it must be made."""
    rows, columns = form.row.shape[3], form.col.shape[3]
    if form.row.shape[1] != 1 or other.row.shape[1] != 1:
        return False
    mine, others = (f.row.shape[0] * f.row.shape[2] for f in (form, other))
    return mine * others * (rows + columns) < (mine + (0 if vector_known else others)) * rows * columns


def dot_mean(form: Factored, other: Factored, coefficient: float = 1.0) -> Tensor:
    """coefficient * <g_n, mean_m g'_m>, [N], for two forms of one group of the same parameter."""
    row, col, other_row, other_col = (
        wide(factor[:, 0]).flatten(0, 1) for factor in (form.row, form.col, other.row, other.col)
    )
    factor = form.factor * other.factor / other.samples * coefficient
    if len(row) == form.samples and _near(row, col, other_row, other_col):
        return native.cross_products((row, col), (other_row, other_col), factor)
    step = max(1, BLOCK // max(1, len(other_row)))
    pieces = zip(row.split(step), col.split(step), strict=True)
    parts = [sum_rows(r @ other_row.mT, c @ other_col.mT, factor) for r, c in pieces]
    each = parts[0] if len(parts) == 1 else torch.cat(parts)  # [N * T]
    return each.view(form.samples, -1).sum(1) if len(each) != form.samples else each


def mean_and_norms(row: Tensor, col: Tensor) -> tuple[Tensor, Tensor]:
    """<g_n, mean g> and ||g_n||^2 for g_n = row_n col_n^T."""
    if _near(row, col, row, col):
        return native.pair_products(row, col, 1 / len(row))
    rows, columns = row @ row.mT, col @ col.mT
    norms = times(rows.diagonal(), columns.diagonal())
    return sum_rows(rows, columns, 1 / len(row)), norms


def _near(row: Tensor, col: Tensor, other_row: Tensor, other_col: Tensor) -> bool:
    """Whether a loop can make all inner products, which are no more numbers than the rows have."""
    largest = max(row.numel(), col.numel(), other_row.numel(), other_col.numel(), len(row) * len(other_row))
    return largest <= NEAR and native.usable(row, col, other_row, other_col)


def sum_rows(one: Tensor, other: Tensor, factor: float = 1.0) -> Tensor:
    """factor * sum_m one_nm other_nm; the first matrix may be overwritten."""
    if native.usable(one, other):
        return native.row_products(one, other, factor)
    found: Tensor = one.mul_(other).sum(1)
    return found if factor == 1 else found.mul_(factor)


def times(one: Tensor, other: Tensor) -> Tensor:
    """one_n other_n, for few numbers."""
    return native.row_products(one[:, None], other[:, None]) if native.usable(one, other) else one * other


def norm_is_cheaper(form: Factored | Convolved) -> bool:
    """Whether ||g_n||^2 takes fewer operations from T^2 inner products than from g_n: T (I + O) against I O."""
    if isinstance(form, Factored):
        positions, rows, columns = form.row.shape[2], form.row.shape[3], form.col.shape[3]
    else:
        positions, rows, columns = form.positions, form.shape[0] // form.groups, prod(form.shape[1:])
    return positions * (rows + columns) < rows * columns


def sq_norm(form: Factored | Convolved) -> Tensor:
    """||g_n||^2, [N]."""
    positions = form.row.shape[2] if isinstance(form, Factored) else form.positions
    step, scratch = max(1, BLOCK // max(1, positions**2, form.size)), Scratch()
    parts = []
    for begin in range(0, form.samples, step):
        row, col = _positions_first(form, begin, min(form.samples, begin + step), scratch)
        products = (row @ row.mT).mul_(col @ col.mT)  # [n * G, T, T]
        parts.append(products.view(min(step, form.samples - begin), -1).sum(1))
    return torch.cat(parts).mul_(form.factor**2)


def _positions_first(form: Factored | Convolved, begin: int, end: int, scratch: Scratch) -> tuple[Tensor, Tensor]:
    if isinstance(form, Factored):
        row, col = (wide(factor[begin:end]).flatten(0, 1) for factor in (form.row, form.col))
        return row, col
    row, col = form.factors(begin, end, scratch)
    return row.mT, col.mT
