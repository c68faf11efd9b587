"""<g_n, v>, [N], for a vector that lies beside the parameter under a name."""

from collections.abc import Mapping
from functools import cache, partial
from math import prod

import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Rows, Shortcut, Statistic
from cockpit.layers.forms import AnyForm, Factored, wide


@cache
def dot(name: str) -> Statistic:
    """The products with the vector of this name."""

    def chunk(g: Tensor, at: At) -> Tensor:
        return g.reshape(len(g), -1) @ at.vectors[name].reshape(-1).to(g.dtype)

    def rows(rows: Rows, at: At) -> Tensor:
        products = (rows.value * rows.beside(at.vectors[name])).sum(1)
        return products.new_zeros(rows.samples).index_add_(0, rows.sample, products)

    def through_factors(form: AnyForm, at: At, elements: int) -> Shortcut | None:
        """row_n^T V col_n: one product for all samples."""
        if not isinstance(form, Factored):
            return None
        operations = form.samples * form.row.shape[2] * prod(form.shape)
        return Shortcut(operations, partial(_compute, form, at.vectors[name]))

    def stacked(g: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        products: Tensor = torch.bmm(g, vectors[name].to(g.dtype)[..., None])
        return products.squeeze(2)

    return Statistic("dot", "sample", chunk, (name,), rows=rows, shortcut=through_factors, stacked=stacked)


def _compute(form: Factored, vector: Tensor) -> Tensor:
    row, col = form.row, form.col
    matrix = vector.to(form.dtype).reshape(row.shape[1], row.shape[3], col.shape[3])
    if row.shape[3] > col.shape[3]:
        row, col, matrix = col, row, matrix.mT
    if len(matrix) == 1:  # all samples and positions are rows of one product
        found = _product(row.reshape(-1, row.shape[3]), matrix[0]).view(col.shape)
    else:
        found = wide(row) @ matrix
    return (found * wide(col)).sum((1, 2, 3)).mul_(form.factor)


def _product(rows: Tensor, matrix: Tensor) -> Tensor:
    """With bfloat16 the matrix goes in as a sum of two: rows are multiplied as they are. Float16 lacks the range."""
    if not rows.is_cuda or rows.dtype is not torch.bfloat16:
        return wide(rows) @ matrix
    high = matrix.to(rows.dtype)
    low = (matrix - high).to(rows.dtype)
    found: Tensor = torch.mm(rows, high, out_dtype=torch.float32)
    return found.add_(torch.mm(rows, low, out_dtype=torch.float32))
