"""The forms of a per-sample gradient; a statistic is written once per form.

Letters: N samples, G groups, T positions, O rows and I columns of the weight seen as a matrix.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 2**22  # elements of per-sample gradient that are formed at once


@dataclass(frozen=True, slots=True)
class Factored:
    """g_n = sum_t row_nt col_nt^T, per group: linear layers and convolutions, never formed as a whole."""

    shape: tuple[int, ...]  # of the parameter: [G * O, I] up to a reshape
    row: Tensor  # [N, G, T, O]
    col: Tensor  # [N, G, T, I]

    @property
    def samples(self) -> int:
        """N."""
        return self.row.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of g_n."""
        return self.row.dtype

    def form(self, begin: int, end: int) -> Tensor:
        """Return g_n for n in [begin, end)."""
        formed = self.row[begin:end].mT @ self.col[begin:end]  # [n, G, O, I]
        return formed.reshape(end - begin, *self.shape)


@dataclass(frozen=True, slots=True)
class Convolved:
    """g_n = response_n patches(signal_n)^T: a convolution, unfolded only for the samples being formed."""

    shape: tuple[int, ...]  # [O, I / G, *kernel]
    signal: Tensor  # [N, images, C, *positions]
    response: Tensor  # [N, images, O, *positions]
    groups: int
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def samples(self) -> int:
        """N."""
        return self.signal.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of g_n."""
        return self.signal.dtype

    def form(self, begin: int, end: int) -> Tensor:
        """Return g_n for n in [begin, end)."""
        signal, response = self.signal[begin:end], self.response[begin:end]
        images = signal.shape[1]
        patches = self._patches(signal.flatten(0, 1), tuple(response.shape[3:]))  # [n, C, *kernel, *positions]
        positions = prod(response.shape[3:])
        row = response.reshape(-1, self.groups, response.shape[2] // self.groups, positions)
        col = patches.reshape(row.shape[0], self.groups, -1, positions)
        formed = row @ col.mT  # [n, G, O, I]
        by_image = formed.reshape(end - begin, images, *self.shape)
        return by_image.sum(1) if images > 1 else by_image[:, 0]

    def _patches(self, signal: Tensor, positions: tuple[int, ...]) -> Tensor:
        kernel, spatial = self.shape[2:], len(positions)
        pads = [p for pad in reversed(self.padding) for p in (pad, pad)]
        patches = F.pad(signal, pads) if any(pads) else signal
        for axis, (size, step, spread) in enumerate(zip(kernel, self.stride, self.dilation, strict=True), start=2):
            patches = patches.unfold(axis, spread * (size - 1) + 1, step)[..., ::spread]
            patches = patches.narrow(axis, 0, positions[axis - 2])  # a stride may leave a rest that nothing saw
        return patches.permute(0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial))


@dataclass(frozen=True, slots=True)
class Indexed:
    """g_n has a few rows that are not zero: embeddings. Entries may repeat; :meth:`coalesce` adds them up."""

    shape: tuple[int, ...]  # [V, ...]
    samples: int
    sample: Tensor  # [M] which sample
    index: Tensor  # [M] which row
    value: Tensor  # [M, E]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of g_n."""
        return self.value.dtype

    def coalesce(self) -> "Indexed":
        """Add up entries of the same sample and row."""
        rows = self.shape[0]
        keys, place = torch.unique(self.sample * rows + self.index, return_inverse=True)
        value = self.value.new_zeros(len(keys), self.value.shape[1]).index_add_(0, place, self.value)
        return Indexed(self.shape, self.samples, keys // rows, keys % rows, value)

    def form(self, begin: int, end: int) -> Tensor:
        """Return g_n for n in [begin, end)."""
        chosen = (self.sample >= begin) & (self.sample < end)
        formed = self.value.new_zeros((end - begin) * self.shape[0], self.value.shape[1])
        formed.index_add_(0, (self.sample[chosen] - begin) * self.shape[0] + self.index[chosen], self.value[chosen])
        return formed.reshape(end - begin, *self.shape)


@dataclass(frozen=True, slots=True)
class Dense:
    """g_n as it is: biases, norm scales, anything small or odd."""

    value: Tensor  # [N, *shape]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter."""
        return tuple(self.value.shape[1:])

    @property
    def samples(self) -> int:
        """N."""
        return self.value.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of g_n."""
        return self.value.dtype

    def form(self, begin: int, end: int) -> Tensor:
        """Return g_n for n in [begin, end)."""
        return self.value[begin:end]


Form = Factored | Convolved | Indexed | Dense


@dataclass(frozen=True, slots=True)
class Summed:
    """A parameter used several times: g_n is the sum of its uses, formed chunk by chunk."""

    parts: tuple[Form, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter."""
        return self.parts[0].shape

    @property
    def samples(self) -> int:
        """N."""
        return self.parts[0].samples

    @property
    def dtype(self) -> torch.dtype:
        """Precision of g_n."""
        return self.parts[0].dtype

    def form(self, begin: int, end: int) -> Tensor:
        """Return g_n for n in [begin, end)."""
        return reduce(torch.add, (part.form(begin, end) for part in self.parts))


AnyForm = Form | Summed


def wide(tensor: Tensor) -> Tensor:
    """Half precision is widened to single: statistics need its range."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def scale(form: AnyForm, factor: float) -> AnyForm:
    """Multiply by a number, on one side, and widen half precision."""
    if isinstance(form, Factored):
        return Factored(form.shape, wide(form.row) * factor, wide(form.col))
    if isinstance(form, Convolved):
        return replace(form, signal=wide(form.signal), response=wide(form.response) * factor)
    if isinstance(form, Indexed):
        return replace(form, value=wide(form.value) * factor)
    if isinstance(form, Summed):
        return Summed(tuple(scale(part, factor) for part in form.parts))  # type: ignore[misc]
    return Dense(wide(form.value) * factor)


def chunks(form: AnyForm, limit: int = CHUNK) -> Iterator[tuple[int, Tensor]]:
    """Form g_n for a few samples at a time: yields (first sample, [n, D])."""
    step = max(1, limit // max(1, prod(form.shape)))
    for begin in range(0, form.samples, step):
        end = min(form.samples, begin + step)
        yield begin, form.form(begin, end).reshape(end - begin, -1)


def combine(forms: list[Form]) -> AnyForm:
    """Join the uses of one parameter in one backward pass into one form."""
    if len(forms) == 1:
        return forms[0]
    if all(isinstance(form, Dense) for form in forms):
        return Dense(reduce(torch.add, (form.form(0, form.samples) for form in forms)))
    factored = [form for form in forms if isinstance(form, Factored)]
    if len(factored) == len(forms) and len({form.row.shape[1] for form in factored}) == 1:
        row = torch.cat([form.row for form in factored], dim=2)
        return Factored(forms[0].shape, row, torch.cat([form.col for form in factored], dim=2))
    indexed = [form for form in forms if isinstance(form, Indexed)]
    if len(indexed) == len(forms):
        sample, index = torch.cat([f.sample for f in indexed]), torch.cat([f.index for f in indexed])
        return Indexed(forms[0].shape, forms[0].samples, sample, index, torch.cat([f.value for f in indexed]))
    return Summed(tuple(forms))


def joined(one: AnyForm, other: AnyForm) -> AnyForm:
    """Add two forms of the same samples."""
    parts: list[Form] = []
    for form in (one, other):
        parts += form.parts if isinstance(form, Summed) else [form]
    return combine(parts)
