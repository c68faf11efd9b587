"""<g_n, v>, [N], for a vector that lies beside the parameter under a name."""

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

    return Statistic("dot", "sample", chunk, (name,), rows=rows, shortcut=through_factors)


def _compute(form: Factored, vector: Tensor) -> Tensor:
    row, col = wide(form.row), wide(form.col)
    matrix = vector.to(form.dtype).reshape(1, row.shape[1], row.shape[3], col.shape[3])
    if row.shape[3] > col.shape[3]:
        products = torch.einsum("ngti,ngti->n", row @ matrix, col)
    else:
        products = torch.einsum("ngto,ngto->n", col @ matrix.mT, row)
    return products * form.factor
