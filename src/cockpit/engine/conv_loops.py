"""g_n of convolutions by compiled loops that pass over the zeros of the response: ReLUs and max-pooling leave many."""

from collections.abc import Iterator
from math import prod
from typing import TypeGuard

from torch import Tensor

from cockpit.engine import native
from cockpit.engine.native.picked import grid
from cockpit.engine.tape import aside
from cockpit.layers.forms import CHUNK, AnyForm, Convolved, Scratch

FEW = 0.5  # share of the response up to which products of matrices take longer
LOOKED_AT = 8  # samples whose responses are


def suits(form: AnyForm) -> TypeGuard[Convolved]:
    """Whether the loops know the convolution, and there are enough zeros."""
    if not isinstance(form, Convolved) or form.groups != 1 or len(form.shape) != 4 or form.response.shape[1] != 1:
        return False
    if not native.usable(form.signal, form.response):
        return False
    some = form.response[:: max(1, form.samples // LOOKED_AT)]
    with aside():
        return int(some.count_nonzero()) <= FEW * some.numel()


def formed(form: Convolved, scratch: Scratch, into: Tensor | None) -> Iterator[tuple[int, Tensor]]:
    """As ``chunks`` of forms."""
    signal, response = form.signal[:, 0], form.response[:, 0]
    windows = form.shape[2:], form.stride, form.padding, form.dilation
    found = grid(signal.shape[1], tuple(signal.shape[2:]), *windows, tuple(response.shape[2:]))
    size = prod(form.shape)
    step = max(1, CHUNK // size)
    for begin in range(0, form.samples, step):
        end = min(form.samples, begin + step)
        g = scratch.take("formed", (end - begin, size), signal) if into is None else into[begin:end]
        found.formed(found.images(signal[begin:end]), response[begin:end].flatten(2), form.factor, g)
        yield begin, g
