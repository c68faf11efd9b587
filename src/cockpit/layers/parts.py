"""Parts of a form: some of its samples, or some rows of its parameter."""

from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Form, Indexed, Summed, wide, wide_type


def pick(form: AnyForm, chosen: Tensor) -> AnyForm:
    """The form of the chosen samples, in this order."""
    if isinstance(form, Factored):
        return replace(form, row=form.row[chosen], col=form.col[chosen])
    if isinstance(form, Convolved):
        return replace(form, signal=form.signal[chosen], response=form.response[chosen])
    if isinstance(form, Indexed):
        place = torch.full((form.samples,), -1, dtype=torch.int64, device=form.sample.device)
        place[chosen] = torch.arange(len(chosen), device=place.device)
        sample = place[form.sample]
        kept = sample >= 0
        return Indexed(form.shape, len(chosen), sample[kept], form.index[kept], form.value[kept])
    if isinstance(form, Summed):
        return Summed(tuple(pick(part, chosen) for part in form.parts))  # type: ignore[misc]
    return Dense(form.value[chosen])


def cut(form: AnyForm, begin: int, end: int) -> AnyForm | None:
    """The form of some rows of the parameter's first axis; None where its factors cannot be cut so."""
    shape = (end - begin, *form.shape[1:])
    if isinstance(form, Factored):
        if form.row.shape[1] != 1 or form.row.shape[3] % form.shape[0]:
            return None
        each = form.row.shape[3] // form.shape[0]
        return replace(form, shape=shape, row=form.row[..., begin * each : end * each])
    if isinstance(form, Convolved):
        return None if form.groups > 1 else replace(form, shape=shape, response=form.response[:, :, begin:end])
    if isinstance(form, Indexed):
        inside = form.among((form.index >= begin) & (form.index < end), 0, begin)
        return replace(inside, shape=shape, index=inside.index - begin)
    if isinstance(form, Summed):
        parts = [cut(part, begin, end) for part in form.parts]
        return None if None in parts else Summed(tuple(parts))  # type: ignore[arg-type]
    return Dense(form.value[:, begin:end])


def tensors(form: AnyForm) -> list[Tensor]:
    """What the form holds."""
    if isinstance(form, Factored):
        return [form.row, form.col]
    if isinstance(form, Convolved):
        return [form.signal, form.response]
    if isinstance(form, Indexed):
        return [form.sample, form.index, form.value]
    if isinstance(form, Summed):
        return [tensor for part in form.parts for tensor in tensors(part)]
    return [form.value]


def products(form: AnyForm) -> int:
    """Multiplications that forming every g_n takes."""
    if isinstance(form, Factored):
        return form.samples * form.row.shape[2] * prod(form.shape)
    if isinstance(form, Convolved):
        return form.samples * form.positions * prod(form.shape)
    if isinstance(form, Summed):
        return sum(products(part) for part in form.parts)
    return 0


def total(form: Form | Summed) -> Tensor:
    """The sum of g_n over all samples, of the parameter's shape."""
    if isinstance(form, Factored):
        summed = torch.einsum("ngto,ngti->goi", wide(form.row), wide(form.col))
        return summed.reshape(form.shape) * form.factor
    if isinstance(form, Indexed):
        rows = form.value.new_zeros(form.shape[0], form.value.shape[1])
        return rows.index_add_(0, form.index, form.value).reshape(form.shape)
    if isinstance(form, Summed):
        return torch.stack([total(part) for part in form.parts]).sum(0)
    if isinstance(form, Dense):
        return form.value.sum(0, dtype=wide_type(form.value.dtype))
    step = max(1, 2**22 // form.size)
    ends = range(0, form.samples, step)
    return torch.stack([form.form(n, min(n + step, form.samples)).sum(0) for n in ends]).sum(0)
