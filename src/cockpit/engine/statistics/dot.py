"""<g_n, v>, [N], for a vector that lies beside the parameter under a name."""

from collections.abc import Mapping, Sequence
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn.functional import conv1d, conv2d, conv3d

from cockpit.engine.statistics._base import At, Shortcut, Statistic
from cockpit.layers.forms import HALF, AnyForm, Convolved, Dense, Factored, Form, Indexed, Summed, wide
from cockpit.layers.parts import products


@cache
def dot(name: str) -> Statistic:
    """The products with the vector of this name."""

    def chunk(g: Tensor, at: At) -> Tensor:
        return g.reshape(len(g), -1) @ at.vectors[name].reshape(-1).to(g.dtype)

    def rows(rows: Indexed, at: At) -> Tensor:
        return _of_part(rows, at.vectors[name], 0)

    def through_factors(form: AnyForm, at: At, elements: int) -> Shortcut | None:
        """What the operation makes of the vector, times the gradient of its result; uses add up."""
        parts = form.parts if isinstance(form, Summed) else (form,)
        if isinstance(form, Dense | Indexed) or any(map(_better_formed, parts)):
            return None
        return Shortcut(sum(map(products, parts)), partial(_compute, parts, at.vectors[name], elements))

    def stacked(g: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        products: Tensor = torch.bmm(g, vectors[name].to(g.dtype)[..., None])
        return products.squeeze(2)

    return Statistic("dot", "sample", chunk, (name,), rows=rows, shortcut=through_factors, stacked=stacked)


def _better_formed(part: Form) -> bool:
    """A GPU forms g_n from halves on its tensor cores; a convolution with the vector needs single precision."""
    return isinstance(part, Convolved) and part.response.is_cuda and part.response.dtype in HALF


def _compute(parts: Sequence[Form], vector: Tensor, elements: int) -> Tensor:
    return torch.stack([_of_part(part, vector, elements) for part in parts]).sum(0)


def _of_part(part: Form, vector: Tensor, elements: int) -> Tensor:
    if isinstance(part, Factored):
        return _of_factors(part, vector)
    if isinstance(part, Convolved):
        return _of_convolution(part, vector.to(part.dtype).reshape(part.shape), elements)
    if isinstance(part, Indexed):
        along = (wide(part.value) * part.beside(vector)).sum(1)
        return along.new_zeros(part.samples).index_add_(0, part.sample, along)
    return wide(part.value).reshape(part.samples, -1) @ vector.to(part.dtype).reshape(-1)


def _of_convolution(form: Convolved, weight: Tensor, elements: int) -> Tensor:
    """The convolution of the signal with the vector, some samples at a time."""
    spatial, images = weight.dim() - 2, form.signal.shape[1]
    convolve = (conv1d, conv2d, conv3d)[spatial - 1]
    step, parts = max(1, elements // max(form.signal[0].numel(), form.response[0].numel())), []
    for begin in range(0, form.samples, step):
        signal = wide(form.signal[begin : begin + step]).flatten(0, 1)
        made = convolve(signal, weight, None, form.stride, form.padding, form.dilation, form.groups)
        made = made.view(-1, images, *made.shape[1:])[tuple(map(slice, (None, *form.response.shape[1:])))]
        parts.append((made * wide(form.response[begin : begin + step])).flatten(1).sum(1))
    return torch.cat(parts) * form.factor


def _of_factors(form: Factored, vector: Tensor) -> Tensor:
    row, col = form.row, form.col
    matrix = vector.to(form.dtype).reshape(row.shape[1], row.shape[3], col.shape[3])
    if row.shape[3] < col.shape[3]:  # the product is to be the smaller one
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
