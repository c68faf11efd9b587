"""<g_n, v> for every sample, and the mean of g_n: linear in g_n, so nothing of size N x D is needed."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.engine import gram, native
from cockpit.engine.vectors import stack
from cockpit.engine.wanted import Direction
from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Indexed, Summed, chunks, wide

CONVOLUTIONS: tuple[Callable[..., Tensor], ...] = (F.conv1d, F.conv2d, F.conv3d)
CHANNELS = 16  # with fewer, forward convolutions are slower than forming g_n
TOGETHER = 2**16  # elements of a vector up to which several are stacked into one product


def project(form: AnyForm, direction: Direction) -> Tensor:
    """<g_n, v>, [N], for a direction given as a vector or as the mean of another form."""
    other = direction.mean_of
    known = direction.vector is not None
    if isinstance(form, Factored) and isinstance(other, Factored) and gram.mean_is_cheaper(form, other, known):
        return gram.dot_mean(form, other, direction.coefficient)
    return along(form, vector_of(direction))


def vector_of(direction: Direction) -> Tensor:
    """The direction as a vector, made from the other form if need be."""
    if direction.vector is not None:
        return direction.vector
    if direction.mean_of is None:
        raise ValueError("a direction without a vector and without a form: give one of them")
    return mean_gradient(direction.mean_of) * direction.coefficient


def along(form: AnyForm, vector: Tensor) -> Tensor:
    """<g_n, v>, [N]."""
    v = vector.to(form.dtype)
    if isinstance(form, Factored):
        return _factored(form, v)
    if isinstance(form, Convolved) and _forward_is_cheaper(form):
        return _convolved(form, v)
    if isinstance(form, Indexed):
        return _indexed(form, v)
    if isinstance(form, Summed):
        return reduce(torch.add, (along(part, v) for part in form.parts))
    flat = v.reshape(-1)
    parts = [g @ flat for _, g in chunks(form)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def outer(row: Tensor, col: Tensor, vectors: list[Tensor]) -> list[Tensor]:
    """<row_n col_n^T, v> for each vector: one product for all samples, and for all vectors if they are small."""
    rows, columns = row.shape[1], col.shape[1]
    if not vectors:
        return []
    matrices = [v.to(row.dtype).reshape(rows, columns) for v in vectors]
    if rows > columns:
        return [gram.sum_rows(row @ matrix, col) for matrix in matrices]
    if len(matrices) == 1 or rows * columns > TOGETHER:
        return [gram.sum_rows(col @ matrix.mT, row) for matrix in matrices]
    through = col @ stack(matrices).flatten(0, 1).mT
    if native.usable(row, col):
        return [native.row_products(part, row) for part in through.split(rows, 1)]
    return list((through.view(len(row), len(matrices), rows) * row[:, None]).sum(2).unbind(1))


def mean_gradient(form: AnyForm) -> Tensor:
    """Return mean_n g_n."""
    if isinstance(form, Factored):
        row, col = wide(form.row), wide(form.col)
        if row.shape[1] == 1:
            total = row.flatten(0, 2).mT @ col.flatten(0, 2)
        else:
            total = torch.einsum("ngto,ngti->goi", row, col)
        return total.reshape(form.shape) * (form.factor / form.samples)
    if isinstance(form, Convolved):
        return _summed_convolution(form) * (form.factor / form.samples)
    if isinstance(form, Indexed):
        rows = form.value.new_zeros(form.shape[0], form.value.shape[1])
        return rows.index_add_(0, form.index, form.value).reshape(form.shape) / form.samples
    if isinstance(form, Dense):
        return form.value.mean(0)
    return reduce(torch.add, (mean_gradient(part) for part in form.parts))


def _factored(form: Factored, v: Tensor) -> Tensor:
    row, col = wide(form.row), wide(form.col)
    if form.outer:
        return outer(row[:, 0, 0], col[:, 0, 0], [v])[0].mul_(form.factor)
    matrix = v.reshape(1, row.shape[1], row.shape[3], -1)  # [1, G, O, I]
    through = row @ matrix * col if row.shape[3] > col.shape[3] else col @ matrix.mT * row
    return through.sum((1, 2, 3)).mul_(form.factor)


def _forward_is_cheaper(form: Convolved) -> bool:
    return form.shape[1] >= CHANNELS


def _convolved(form: Convolved, v: Tensor) -> Tensor:
    """A forward convolution with v as its weight, times the response."""
    signal, response = wide(form.signal).flatten(0, 1), wide(form.response)
    convolve = CONVOLUTIONS[len(form.shape) - 3]
    weight = v.reshape(form.shape)
    through = convolve(signal, weight, None, form.stride, form.padding, form.dilation, form.groups)
    for axis, size in enumerate(response.shape[3:], start=2):
        through = through.narrow(axis, 0, size)  # of a transposed convolution it may be longer
    return (through.reshape(response.shape) * response).flatten(1).sum(1).mul_(form.factor)


def _summed_convolution(form: Convolved) -> Tensor:
    """sum_n g_n without the factor: the weight gradient of the convolution."""
    if not _has_its_length(form):
        parts = (part.sum(0) for _, part in chunks(replace(form, factor=1.0)))
        return reduce(torch.add, parts).reshape(form.shape)
    signal, response = wide(form.signal).flatten(0, 1), wide(form.response).flatten(0, 1)
    like = signal.new_empty(1).expand(form.shape)  # only its shape matters
    spatial = len(form.shape) - 2
    settings = (list(form.stride), list(form.padding), list(form.dilation), False, [0] * spatial, form.groups)
    mask = [False, True, False]  # not of the input, of the weight, not of the bias
    found: Tensor = torch.ops.aten.convolution_backward(response, signal, like, None, *settings, mask)[1]
    return found


def _has_its_length(form: Convolved) -> bool:
    """Whether the response is as long as that of a convolution; of a transposed one it may be shorter."""
    axes = zip(form.signal.shape[3:], form.shape[2:], form.stride, form.padding, form.dilation, strict=True)
    lengths = [(size + 2 * pad - spread * (kernel - 1) - 1) // step + 1 for size, kernel, step, pad, spread in axes]
    return lengths == list(form.response.shape[3:])


def _indexed(form: Indexed, v: Tensor) -> Tensor:
    rows = v.reshape(form.shape[0], -1)[form.index]
    zeros = form.value.new_zeros(form.samples)
    return zeros.index_add_(0, form.sample, (rows * form.value).sum(1))
