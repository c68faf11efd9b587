"""Whether what the samples contributed adds up to the gradient that arrives at a parameter."""

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Indexed, Summed, wide, wide_type, widened
from cockpit.layers.parts import tensors, total

ROUNDING = {torch.float64: 1e-9, torch.float32: 2e-5}
TEN_BITS = 5e-3  # products on a GPU may round their inputs to ten bits
HALF = 5e-2


def rounding_of(parameter: Tensor, half: torch.dtype | None) -> float:
    """How far the sum may be from the gradient by rounding, for each length of a sample's contribution."""
    if half is not None or parameter.dtype.itemsize < 4:
        return HALF
    ten_bits = parameter.is_cuda and parameter.dtype is torch.float32
    return TEN_BITS if ten_bits else ROUNDING.get(parameter.dtype, HALF)


def noise_of(dtype: torch.dtype) -> float:
    """Rounding of a gradient that is zero (an attention's key bias), for each length of the largest contribution."""
    return 4 * torch.finfo(dtype).eps


def imbalance(form: AnyForm, arrived: Tensor) -> Tensor:
    """Its length is that of u^T (sum_n g_n - arrived), with random signs u over the rows of the parameter's matrix.

    One row takes a fraction of what all rows take, and a difference of the matrices hides from it by chance alone: of
    a random difference it has the length, on average. What is there element by element is simply added up.
    """
    if isinstance(form, Dense) or not form.shape:
        return total(form) - arrived
    signs = _signs(form.shape[0], arrived.device, wide_type(form.dtype))
    if any(tensor.dtype is torch.float16 for tensor in tensors(form)):
        form = widened(form)  # sums over rows overflow where the loss is scaled
    return _signed(form, signs) - signs @ arrived.to(signs.dtype).reshape(form.shape[0], -1)


@lru_cache(256)
def _signs(count: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return (torch.randint(2, (count,), generator=generator, device="cpu") * 2 - 1).to(device, dtype)


def _signed(form: AnyForm, signs: Tensor) -> Tensor:
    """u^T sum_n g_n for the form's matrix [rows, rest]."""
    if isinstance(form, Summed):
        return torch.stack([_signed(part, signs) for part in form.parts]).sum(0)
    if isinstance(form, Factored) and form.row.shape[1] == 1 and form.row.shape[3] == form.shape[0]:
        row = form.row.reshape(-1, form.shape[0]) @ _signs(form.shape[0], signs.device, form.row.dtype)  # [N T]
        return (row @ form.col.reshape(len(row), -1)).to(signs.dtype).mul_(form.factor)
    if isinstance(form, Factored) and form.row.shape[1] * form.row.shape[3] == form.shape[0]:
        row = form.row @ signs.to(form.row.dtype).view(form.row.shape[1], -1, 1)  # [N, G, T, 1]
        return (wide(row).mT @ wide(form.col)).sum((0, 1, 2)) * form.factor
    if isinstance(form, Convolved) and form.groups == 1:
        response = torch.tensordot(form.response.movedim(2, -1), signs.to(form.response.dtype), 1).unsqueeze(2)
        if not _has_its_length(form):
            alone = replace(form, shape=(1, *form.shape[1:]), response=wide(response))
            return total(alone).to(signs.dtype).reshape(-1)
        return _weight_gradient(form, response).to(signs.dtype).reshape(-1).mul_(form.factor)
    if isinstance(form, Indexed):
        return (wide(form.value) * signs[form.index, None]).sum(0)
    return signs @ total(form).reshape(form.shape[0], -1)


def _has_its_length(form: Convolved) -> bool:
    """Whether the response is as long as that of a convolution; of a transposed one it may be shorter."""
    axes = zip(form.signal.shape[3:], form.shape[2:], form.stride, form.padding, form.dilation, strict=True)
    lengths = [(size + 2 * pad - spread * (kernel - 1) - 1) // step + 1 for size, kernel, step, pad, spread in axes]
    return lengths == list(form.response.shape[3:])


def _weight_gradient(form: Convolved, response: Tensor) -> Tensor:
    """Of a convolution with one channel of results, all samples together: [1, C, *kernel]."""
    size, spatial = [1, *form.shape[1:]], len(form.shape) - 2
    weight: Tensor = torch.ops.aten.convolution_backward(
        response.flatten(0, 1),
        form.signal.flatten(0, 1),
        response.new_empty(size),
        None,
        form.stride,
        form.padding,
        form.dilation,
        False,
        [0] * spatial,
        1,
        [False, True, False],
    )[1]
    return weight
