"""Squares of the per-sample gradients of a convolution, summed over columns and samples.

For sample n and column c the gradient is g = b_nc A_n: b is the gradient at the output, [O, T], A the patches of the
input that the kernel saw, [T, I]. All columns share the patches. Letters: N samples, K columns, G groups, T positions,
O output channels, I elements of the kernel (the last index counts input channels, so that patches are copied in runs).
"""

from dataclasses import dataclass, replace
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.engine import conv_kernels, kernels, native
from cockpit.engine.autograd.graph import Node, shapes
from cockpit.engine.filling import rounds
from cockpit.engine.native.picked import listable
from cockpit.engine.scattered import Scattered, picked
from cockpit.engine.sending import ALL, Part
from cockpit.engine.windows import Windows
from cockpit.layers.forms import Scratch, as_convolutions, wide, wide_type

CACHE = 2**20  # numbers that are made at once on a CPU
ALIGNED = 8  # numbers, in steps of which a GPU's quick products read their operands


@dataclass(frozen=True, slots=True)
class Convolution:
    """The input of a convolution as patches."""

    signal: Tensor  # [N, C, *positions]
    windows: Windows
    groups: int
    positions: tuple[int, ...]  # of the output

    @classmethod
    def of(cls, node: Node, part: Part = ALL) -> "Convolution":
        """Read autograd's node, of some samples or all."""
        signal, positions = part.of(node._saved_input.detach()), shapes(node)[0][2:]
        return cls(signal, Windows.of(node), node._saved_groups, positions)

    @property
    def width(self) -> int:
        """I."""
        return prod(self.windows.kernel) * self.signal.shape[1] // self.groups

    def patches(self, begin: int, end: int, scratch: Scratch) -> Tensor:
        """[n * G, T, I] for the samples [begin, end)."""
        view = self._unfolded(begin, end)
        return scratch.take("patches", tuple(view.shape), view).copy_(view).view(-1, prod(self.positions), self.width)

    def aligned(self) -> Tensor:
        """[N, T, I] for one group, and zeros up to a multiple of ``ALIGNED``: products are twice as quick with it."""
        view = self._unfolded(0, len(self.signal))[:, 0]
        rows = view.new_zeros(len(view), prod(self.positions), -(-self.width // ALIGNED) * ALIGNED)
        real = rows.unflatten(1, self.positions)[..., : self.width]
        real.unflatten(-1, (*self.windows.kernel, -1)).copy_(view)
        return rows

    def _unfolded(self, begin: int, end: int) -> Tensor:
        """A view, [n, G, *positions, *kernel, C / G]."""
        kernel, stride, padding, dilation = self.windows
        spatial = len(kernel)
        view = wide(self.signal[begin:end]).movedim(1, -1)  # channels last
        if any(padding):
            view = F.pad(view, (0, 0, *(p for pad in reversed(padding) for p in (pad, pad))))
        else:
            view = view.contiguous()
        for axis, (size, step, spread) in enumerate(zip(kernel, stride, dilation, strict=True), start=1):
            view = view.unfold(axis, spread * (size - 1) + 1, step)[..., ::spread]
            view = view.narrow(axis, 0, self.positions[axis - 1])  # a stride may leave a rest that nothing saw
        view = view.unflatten(spatial + 1, (self.groups, -1))  # [n, *positions, G, C / G, *kernel]
        after = range(spatial + 3, 2 * spatial + 3)
        found: Tensor = view.permute(0, spatial + 1, *range(1, spatial + 1), *after, spatial + 2)
        return found


def sum_of_squares(
    conv: Convolution, grad: Tensor | Scattered, signs: Tensor | None, channels: int, room: int
) -> Tensor:
    """Return sum_nc sign_nc g_nc^2 in the shape of the weight; ``signs``, [K, N], None for all positive."""
    found = _by_kernel(conv, grad, signs, room) if conv.signal.is_cuda else None
    if found is not None:
        return found
    if isinstance(grad, Scattered) and conv.groups == 1 and not conv.signal.is_cuda:
        total = _scattered(conv, grad, signs)
    else:
        total = _dense(conv, grad, signs, channels, room)
    return total.view(channels, *conv.windows.kernel, -1).movedim(-1, 1)


def by_loop(conv: Convolution, grad: Tensor | Scattered, signs: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """The same and that of the bias, in one pass; None where there is no loop for it."""
    if not isinstance(grad, Scattered) or conv.groups != 1 or not listable(grad.index.shape):
        return None
    if not native.usable(conv.signal, grad.value):
        return None
    picks = picked(grad, tuple(conv.signal.shape), conv.windows)
    rows, bias = picks.squares(picks.grid.images(conv.signal), grad.value, signs)
    return picks.grid.weight(rows), bias


def _by_kernel(conv: Convolution, grad: Tensor | Scattered, signs: Tensor | None, room: int) -> Tensor | None:
    value = grad.value if isinstance(grad, Scattered) else grad
    taken = kernels.usable(value) and kernels.usable(conv.signal) and conv.signal.dim() == 4 and conv.groups == 1
    if _broken or not taken:
        return None
    try:
        rounded = rounds()
        if rounded:
            conv = replace(conv, signal=conv_kernels.nearest(conv.signal))
        if isinstance(grad, Scattered) and conv.width <= conv_kernels.NARROW:
            grad = replace(grad, value=conv_kernels.nearest(grad.value)) if rounded else grad
            return conv_kernels.pooled_squares(conv.signal, grad, signs, conv.windows, rounded)
        return _piece_by_piece(conv, grad, signs, room, rounded)
    except Exception as error:  # the same numbers come without it
        _broken.append(error)
        return None


def _piece_by_piece(
    conv: Convolution, grad: Tensor | Scattered, signs: Tensor | None, room: int, rounded: bool
) -> Tensor:
    """Some samples at a time where zeros must be filled in."""
    samples, as_read = len(conv.signal), conv_kernels.nearest if rounded else Tensor.contiguous
    if not isinstance(grad, Scattered):
        return conv_kernels.squares(conv.signal, as_read(grad), signs, conv.windows, rounded)
    if grad.whole:
        return conv_kernels.squares(conv.signal, grad.whole[0], signs, conv.windows, rounded)
    each = len(grad) * prod(grad.shape[1:]) * grad.dtype.itemsize
    step, total = max(1, min(samples, room // each)), conv.signal.new_zeros(())
    for begin in range(0, samples, step):
        part = slice(begin, begin + step)
        of_part = None if signs is None else signs[:, part]
        dense = as_read(grad.dense(samples=part))
        found = conv_kernels.squares(conv.signal[part], dense, of_part, conv.windows, rounded)
        total = total + found if begin else found
    return total


_broken: list[Exception] = []  # what the kernel said when it could not be built


def _dense(conv: Convolution, grad: Tensor | Scattered, signs: Tensor | None, channels: int, room: int) -> Tensor:
    """One product for each sample and group: [K * O, T] @ [T, I]."""
    columns, samples, groups = len(grad), conv.signal.shape[0], conv.groups
    positions, width, scratch = prod(conv.positions), conv.width, Scratch()
    each = columns * channels * (positions + width) + groups * positions * width
    limit = room // wide_type(grad.dtype).itemsize if conv.signal.is_cuda else CACHE
    step = max(1, min(samples, limit // each))
    total = conv.signal.new_zeros(0)
    for begin in range(0, samples, step):
        end = min(samples, begin + step)
        part = grad.dense(samples=slice(begin, end)) if isinstance(grad, Scattered) else grad[:, begin:end]
        rows = scratch.take("rows", (end - begin, groups, columns, channels // groups, positions), part)
        rows.copy_(part.reshape(columns, end - begin, groups, -1, positions).permute(1, 2, 0, 3, 4))
        patches = conv.patches(begin, end, scratch)
        formed = scratch.take("formed", ((end - begin) * groups, rows.shape[2] * rows.shape[3], width), rows)
        with as_convolutions(rows):
            torch.bmm(rows.view(len(patches), -1, positions), patches, out=formed)
        squares = _summed(formed.view(end - begin, groups, columns, -1), signs, begin, end)  # [G, O / G * I]
        total = squares if not begin else total.add_(squares)
    return total.view(channels, width)


def _summed(formed: Tensor, signs: Tensor | None, begin: int, end: int) -> Tensor:
    """Squares of [n, G, K, D], summed over samples and columns: [G, D]."""
    found: Tensor
    if signs is None:
        found = torch.linalg.vector_norm(formed, dim=(0, 2)).square_()
    else:
        weights = signs[:, begin:end].mT.to(formed.dtype)  # [n, K]
        found = torch.einsum("nk,ngkd->gd", weights, formed.square_())
    return found


def _scattered(conv: Convolution, grad: Scattered, signs: Tensor | None) -> Tensor:
    """Only the places that max-pooling chose: [K, S] @ [S, I] for each sample and channel."""
    columns, samples, channels, places = grad.value.shape
    scratch, width, positions = Scratch(), conv.width, prod(conv.positions)
    value, index = wide(grad.value), grad.index_or(positions).flatten(1)
    patches = scratch.take("padded patches", (positions + 1, width), value)  # one more: where nothing is to be read
    patches[positions] = 0
    rows = scratch.take("rows", (channels * places, width), value)
    formed = scratch.take("formed", (channels, columns, width), value)
    total, by_channel = torch.zeros_like(formed), rows.view(channels, places, width)
    step = max(1, CACHE // (positions * width))
    for n, (at, factors) in enumerate(zip(index.unbind(0), value.permute(1, 2, 0, 3).unbind(0), strict=True)):
        if n % step == 0:
            unfolded = conv.patches(n, min(samples, n + step), scratch)
        patches[:positions] = unfolded[n % step]
        torch.index_select(patches, 0, at, out=rows)
        torch.bmm(factors, by_channel, out=formed)
        total.addcmul_(formed, formed if signs is None else formed * signs[:, n, None].to(formed.dtype))
    return total.sum(1)
