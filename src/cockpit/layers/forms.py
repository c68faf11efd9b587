"""The forms of a per-sample gradient; a statistic is written once per form.

Letters: N samples, G groups, T positions, O rows and I columns of the weight seen as a matrix.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import torch
from torch import Tensor

CHUNK = 2**20  # numbers that are made at once on a CPU: what is read several times should stay in its cache
HALF = frozenset({torch.float16, torch.bfloat16})


class Scratch:
    """Memory for one chunk after the other: pages that are new are dear."""

    def __init__(self) -> None:
        self._held: dict[tuple[object, ...], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor, zeros: bool = False) -> Tensor:
        """Return memory for ``shape`` in the precision of statistics; with what was left in it, at first anything.

        ``zeros``: at first these; nobody is given the same memory in another shape, but for the first axis.
        """
        key = name, wide_type(like.dtype), like.device, shape[1:] if zeros else None
        held = self._held.get(key)
        if held is not None and held.shape == shape:
            return held
        if held is None or held.numel() < prod(shape):
            make = torch.zeros if zeros else torch.empty
            held = self._held[key] = make(shape, dtype=wide_type(like.dtype), device=like.device)
            return held
        return held.view(-1)[: prod(shape)].view(shape)


@dataclass(frozen=True, slots=True)
class Factored:
    """g_n = factor * sum_t row_nt col_nt^T, per group: linear layers, never formed as a whole."""

    shape: tuple[int, ...]  # of the parameter: [G * O, I] up to a reshape
    row: Tensor  # [N, G, T, O]
    col: Tensor  # [N, G, T, I]
    factor: float = 1.0

    @property
    def samples(self) -> int:
        """N."""
        return self.row.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the numbers made from g_n."""
        return wide_type(self.row.dtype)

    @property
    def outer(self) -> bool:
        """Whether g_n is the outer product of two vectors."""
        return self.row.shape[1:3] == (1, 1)

    @property
    def size(self) -> int:
        """Numbers made to form one g_n."""
        return prod(self.shape)

    def form(self, begin: int, end: int, scratch: Scratch | None = None) -> Tensor:
        """Return g_n for n in [begin, end)."""
        row, col = (factor[begin:end].flatten(0, 1) for factor in (self.row, self.col))  # [n * G, T, ...]
        return product(row.mT, col, self.factor, scratch or Scratch()).view(end - begin, *self.shape)


@dataclass(frozen=True, slots=True)
class Convolved:
    """g_n = factor * response_n patches(signal_n)^T: a convolution, unfolded only for the samples being formed."""

    shape: tuple[int, ...]  # [O, C / G, *kernel]
    signal: Tensor  # [N, images, C, *positions]
    response: Tensor  # [N, images, O, *positions]
    groups: int
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    factor: float = 1.0

    @property
    def samples(self) -> int:
        """N."""
        return self.signal.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the numbers made from g_n."""
        return wide_type(self.signal.dtype)

    @property
    def positions(self) -> int:
        """T: of all images of a sample."""
        return self.response.shape[1] * prod(self.response.shape[3:])

    @property
    def size(self) -> int:
        """Numbers made to form one g_n."""
        return max(prod(self.shape), prod(self.shape[1:]) * self.groups * self.positions)

    def form(self, begin: int, end: int, scratch: Scratch | None = None) -> Tensor:
        """Return g_n for n in [begin, end)."""
        scratch = scratch or Scratch()
        halves = self.response.is_cuda and self.response.dtype in HALF and self.response.dtype == self.signal.dtype
        row, col = self.factors(begin, end, scratch, halves)
        return product(row, col.mT, self.factor, scratch).view(end - begin, *self.shape)

    def factors(self, begin: int, end: int, scratch: Scratch, as_they_are: bool = False) -> tuple[Tensor, Tensor]:
        """Return the matrices [n * G, O / G, T] and [n * G, I, T] whose product is g_n, without the factor.

        Half precision is widened, unless they are to be left as they are.
        """
        response, signal, shape = self.response[begin:end], self.signal[begin:end], self.shape
        response = response if as_they_are else wide(response)
        row = response.transpose(1, 2).reshape(-1, shape[0] // self.groups, self.positions)
        patches = self._patches(signal, scratch, as_they_are)
        return row, patches.reshape(row.shape[0], prod(shape[1:]), self.positions)

    def _patches(self, signal: Tensor, scratch: Scratch, as_they_are: bool) -> Tensor:
        """What each element of the kernel sees: [n, C, *kernel, images, *positions]."""
        kernel, positions = self.shape[2:], self.response.shape[3:]
        if set(kernel + self.stride) == {1} and not any(self.padding) and signal.shape[3:] == positions:
            return (signal if as_they_are else wide(signal)).transpose(1, 2)
        if as_they_are:
            view = torch.nn.functional.pad(signal, [pad for size in reversed(self.padding) for pad in (size, size)])
        else:
            view = self._padded(signal, scratch) if any(self.padding) else signal
        for axis, (size, step, spread) in enumerate(zip(kernel, self.stride, self.dilation, strict=True), start=3):
            view = view.unfold(axis, spread * (size - 1) + 1, step)[..., ::spread]
            view = view.narrow(axis, 0, positions[axis - 3])  # a stride may leave a rest that nothing saw
        spatial = len(positions)
        view = view.permute(0, 2, *range(3 + spatial, 3 + 2 * spatial), 1, *range(3, 3 + spatial))
        return view if as_they_are else scratch.take("patches", tuple(view.shape), signal).copy_(view)

    def _padded(self, signal: Tensor, scratch: Scratch) -> Tensor:
        spatial = signal.shape[3:]
        around = tuple(size + 2 * pad for size, pad in zip(spatial, self.padding, strict=True))
        name = f"padded by {self.padding}"  # the border stays: nobody else may have it inside
        padded = inside = scratch.take(name, (*signal.shape[:3], *around), signal, zeros=True)
        for axis, (size, pad) in enumerate(zip(spatial, self.padding, strict=True), start=3):
            inside = inside.narrow(axis, pad, size)
        inside.copy_(signal)
        return padded


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

    @property
    def zeros(self) -> int:
        """Elements of all g_n that are in no entry."""
        return self.samples * prod(self.shape) - self.value.numel()

    def beside(self, tensor: Tensor) -> Tensor:
        """The rows of a tensor of the parameter's shape: [M, E]."""
        return tensor.reshape(self.shape[0], -1)[self.index]

    def coalesce(self) -> "Indexed":
        """Add up entries of the same sample and row.

        As many entries as before, the last ones zero: how many there are is asked of no device, and of no tape.
        """
        keys = self.sample * self.shape[0] + self.index
        ordered, order = keys.sort()
        begins = torch.ones_like(ordered)
        begins[1:] = ordered[1:] != ordered[:-1]
        place = begins.cumsum(0) - 1
        value = torch.zeros_like(self.value).index_add_(0, place, self.value[order])
        distinct = torch.zeros_like(keys).scatter_(0, place, ordered)
        return Indexed(self.shape, self.samples, distinct // self.shape[0], distinct % self.shape[0], value)

    @property
    def size(self) -> int:
        """Numbers made to form one g_n."""
        return prod(self.shape)

    def form(self, begin: int, end: int, scratch: Scratch | None = None) -> Tensor:
        """Return g_n for n in [begin, end)."""
        formed = self.value.new_zeros((end - begin) * self.shape[0], self.value.shape[1])
        inside = (self.sample >= begin) & (self.sample < end)
        entries = self if (begin, end) == (0, self.samples) else self.among(inside, begin, 0)
        formed.index_add_(0, (entries.sample - begin) * self.shape[0] + entries.index, entries.value)
        return formed.reshape(end - begin, *self.shape)

    def among(self, chosen: Tensor, sample: int, index: int) -> "Indexed":
        """The chosen entries. How many is asked of no GPU: there, the others become zeros of this sample and row."""
        if not self.value.is_cuda:
            return replace(self, sample=self.sample[chosen], index=self.index[chosen], value=self.value[chosen])
        return replace(
            self,
            sample=torch.where(chosen, self.sample, sample),
            index=torch.where(chosen, self.index, index),
            value=torch.where(chosen[:, None], self.value, 0),
        )


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

    @property
    def size(self) -> int:
        """Numbers made to form one g_n."""
        return prod(self.shape)

    def form(self, begin: int, end: int, scratch: Scratch | None = None) -> Tensor:
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

    @property
    def size(self) -> int:
        """Numbers made to form one g_n."""
        return sum(part.size for part in self.parts)

    def form(self, begin: int, end: int, scratch: Scratch | None = None) -> Tensor:
        """Return g_n for n in [begin, end)."""
        return reduce(torch.add, (part.form(begin, end) for part in self.parts))


AnyForm = Form | Summed


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """Half precision is widened to single: statistics need its range."""
    return torch.float32 if dtype in HALF else dtype


def wide(tensor: Tensor) -> Tensor:
    """Widen half precision."""
    return tensor.float() if tensor.dtype in HALF else tensor


def product(left: Tensor, right: Tensor, factor: float, scratch: Scratch) -> Tensor:
    """factor * left @ right of batches of matrices."""
    if left.dtype in HALF and left.dtype == right.dtype and left.is_cuda and left.shape[2] > 1:
        formed = scratch.take("formed", (*left.shape[:2], right.shape[2]), left)  # products of halves are exact
        return torch.baddbmm(formed, left, right, out_dtype=torch.float32, beta=0, alpha=factor)
    left, right = wide(left), wide(right)
    formed = scratch.take("formed", (*left.shape[:2], right.shape[2]), left)
    if left.shape[2] == 1:  # one product each: no sum to round
        return torch.mul(left if factor == 1 else left * factor, right, out=formed)
    return formed.baddbmm_(left, right, beta=0, alpha=factor)


def scale(form: AnyForm, factor: float) -> AnyForm:
    """Multiply by a number; factors are only told, the data is not touched."""
    if factor == 1:
        return widened(form)
    if isinstance(form, Factored | Convolved):
        return replace(form, factor=form.factor * factor)
    if isinstance(form, Indexed):
        return replace(form, value=wide(form.value) * factor)
    if isinstance(form, Summed):
        return Summed(tuple(scale(part, factor) for part in form.parts))  # type: ignore[misc]
    return Dense(wide(form.value) * factor)


def widened(form: AnyForm) -> AnyForm:
    """Widen half precision now, for those who read the factors themselves."""
    if isinstance(form, Factored):
        return replace(form, row=wide(form.row), col=wide(form.col))
    if isinstance(form, Convolved):
        return replace(form, signal=wide(form.signal), response=wide(form.response))
    if isinstance(form, Indexed):
        return replace(form, value=wide(form.value))
    if isinstance(form, Summed):
        return Summed(tuple(widened(part) for part in form.parts))  # type: ignore[misc]
    return Dense(wide(form.value))


def chunks(form: AnyForm, limit: int = CHUNK, scratch: Scratch | None = None) -> Iterator[tuple[int, Tensor]]:
    """Form g_n for a few samples at a time: yields (first sample, [n, D]), gone when the next one is asked for."""
    if isinstance(form, Dense):
        limit = max(limit, 4 * CHUNK)  # it is there already
    scratch = scratch or Scratch()
    most = max(1, limit // max(1, form.size))
    step = -(-form.samples // max(1, -(-form.samples // most)))  # chunks of nearly equal size
    for begin in range(0, form.samples, step):
        end = min(form.samples, begin + step)
        yield begin, form.form(begin, end, scratch).reshape(end - begin, -1)


def combine(forms: list[Form]) -> AnyForm:
    """Join the uses of one parameter in one backward pass into one form."""
    if len(forms) == 1:
        return forms[0]
    if all(isinstance(form, Dense) for form in forms):
        return Dense(reduce(torch.add, (form.form(0, form.samples) for form in forms)))
    factored = [form for form in forms if isinstance(form, Factored)]
    if len(factored) == len(forms) and len({(form.row.shape[1], form.factor) for form in factored}) == 1:
        row = torch.cat([form.row for form in factored], dim=2)
        return Factored(forms[0].shape, row, torch.cat([form.col for form in factored], dim=2), factored[0].factor)
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
