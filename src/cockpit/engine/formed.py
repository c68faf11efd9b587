"""Statistics of g_n that must be formed: a chunk of samples at a time, everything from the chunk while it is warm."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from cockpit.engine import conv_loops, histograms, kernels, native
from cockpit.engine.statistics.bins import Bins
from cockpit.engine.vectors import ROW, square_rows
from cockpit.engine.wanted import Statistics, Wanted
from cockpit.engine.ways import Way
from cockpit.layers.forms import CHUNK, AnyForm, Convolved, Dense, Factored, Scratch, Summed, chunks, wide

WHOLE = 2**31  # bytes of all g_n together up to which they are formed at once on a GPU
PART = 2**29  # bytes that are made at once where they are not
VECTORS = 4  # that a kernel multiplies with in one pass
POSITIONS = 64  # from so many on, <g_n, v> is faster from g_n in a CPU's memory than from its factors


def compute(
    form: AnyForm,
    theta: Tensor,
    wanted: Wanted,
    vectors: Mapping[str, Tensor],
    room: int = 0,
    way: Way = "auto",
    scratch: Scratch | None = None,
) -> Statistics:
    """Compute everything wanted; ``vectors`` of the parameter's shape.

    ``room``: bytes that g_n may take on a CPU if it is likely to be projected on once more; ``way`` may say otherwise.
    ``scratch``: memory to work in on a CPU.
    """
    flat = {name: v.to(form.dtype).reshape(-1) for name, v in vectors.items()}
    theta = wide(theta.detach()).reshape(-1)
    if theta.device.type == "cpu":
        found = _on_cpu(form, theta, wanted, flat, _kept(form, theta, room, way), scratch or Scratch())
    else:
        found = _on_gpu(form, theta, wanted, flat, way)
    if not isinstance(form, Dense):
        found.way = "chunks" if found.formed is None else "form"
    return found


class _Sums:
    """What chunks add up to."""

    def __init__(self, wanted: Wanted, vectors: Mapping[str, Tensor]) -> None:
        self.wanted, self.vectors = wanted, vectors
        self.norms: list[Tensor] = []
        self.dots: dict[str, list[Tensor]] = {name: [] for name in vectors}
        self.sum_sq: Tensor | None = None
        self.abs_max: Tensor | None = None

    def add(self, g: Tensor, scratch: Scratch) -> None:
        """Take a chunk [n, D]."""
        if self.wanted.sq_norm and g.shape[1] <= ROW and not self.wanted.sum_sq:
            self.norms.append(square_rows(g))
        elif self.wanted.sum_sq or self.wanted.sq_norm:
            squares = torch.mul(g, g, out=scratch.take("flags", tuple(g.shape), g))
            if self.wanted.sq_norm:
                self.norms.append(squares.sum(1))  # added in pairs: more accurate than a norm
            if self.wanted.sum_sq:
                total = squares.sum(0)
                self.sum_sq = total if self.sum_sq is None else self.sum_sq.add_(total)
        for name, v in self.vectors.items():
            self.dots[name].append(g @ v)

    def take_extremes(self, low: Tensor, high: Tensor) -> None:
        """Take the smallest and the largest element of a chunk."""
        top = torch.maximum(low.abs(), high.abs())
        self.abs_max = top if self.abs_max is None else torch.maximum(self.abs_max, top)

    def statistics(self, shape: tuple[int, ...]) -> Statistics:
        """Put the samples together."""
        return Statistics(
            sq_norm=_joined(self.norms) if self.wanted.sq_norm else None,
            dots={name: _joined(parts) for name, parts in self.dots.items()},
            sum_sq=None if self.sum_sq is None else self.sum_sq.reshape(shape),
            abs_max=self.abs_max,
        )


def _on_cpu(
    form: AnyForm,
    theta: Tensor,
    wanted: Wanted,
    vectors: Mapping[str, Tensor],
    whole: Tensor | None,
    scratch: Scratch,
) -> Statistics:
    """``whole``: memory for all g_n, if they are kept."""
    if form.dtype is torch.float32 and native.usable(theta):
        return _by_loops(form, theta, wanted, vectors, whole, scratch)
    sums, joints = _Sums(wanted, vectors), _joints(theta, wanted)
    counts = {bins: np.zeros(bins.count, np.int64) for bins in wanted.hist1d}
    for _, g in chunks(form, scratch=scratch, into=whole):
        sums.add(g, scratch)
        if not (counts or joints or wanted.abs_max):
            continue
        within = histograms.extremes(g)
        if wanted.abs_max:
            sums.take_extremes(*(g.new_tensor(end) for end in within))
        for bins, count in counts.items():
            count += histograms.count(g, bins, within, scratch)
        for joint in joints.values():
            joint.add(g, within, scratch)
    found = sums.statistics(form.shape)
    found.formed = whole
    found.hist1d = {bins: torch.from_numpy(count) for bins, count in counts.items()}
    found.hist2d = {pair: joint.counts(scratch) for pair, joint in joints.items()}
    return found


def _by_loops(
    form: AnyForm,
    theta: Tensor,
    wanted: Wanted,
    vectors: Mapping[str, Tensor],
    whole: Tensor | None,
    scratch: Scratch,
) -> Statistics:
    """Each chunk is read once, by compiled loops."""
    joints = {} if isinstance(form, Dense) else _joints(theta, wanted)
    squares = torch.zeros(theta.numel(), dtype=theta.dtype, device="cpu") if wanted.sum_sq else None
    top = torch.zeros((), dtype=theta.dtype, device="cpu") if wanted.abs_max else None
    found = torch.empty(1 + len(vectors), form.samples, dtype=theta.dtype, device="cpu")
    counts = [torch.zeros(bins.count, dtype=torch.int64, device="cpu") for bins in wanted.hist1d]
    pieces = conv_loops.formed(form, scratch, whole) if conv_loops.suits(form) else chunks(form, CHUNK, scratch, whole)
    for begin, g in pieces:
        first, *others = zip(wanted.hist1d, counts, strict=True) if counts else [None]
        rows = found[:, begin : begin + len(g)]
        native.scan(g, list(vectors.values()), rows, squares, first, top)
        for more in others:
            native.scan(g, [], None, None, more)
        for joint in joints.values():
            joint.add(g, histograms.extremes(g), scratch)
    lengths, *dots = found.unbind(0)
    return Statistics(
        sq_norm=lengths if wanted.sq_norm else None,
        dots=dict(zip(vectors, dots, strict=True)),
        sum_sq=None if squares is None else squares.view(form.shape),
        abs_max=top,
        hist1d=dict(zip(wanted.hist1d, counts, strict=True)),
        hist2d=_beside(form, theta, wanted) or {pair: joint.counts(scratch) for pair, joint in joints.items()},
        formed=whole,
    )


def _beside(form: AnyForm, theta: Tensor, wanted: Wanted) -> dict[tuple[Bins, Bins], Tensor]:
    """Joint histograms of g_n that are there as they are, by compiled loops."""
    if not isinstance(form, Dense) or not wanted.hist2d:
        return {}
    one = torch.ones(form.samples, 1, dtype=theta.dtype, device="cpu")
    columns = form.value.reshape(form.samples, -1)
    return {pair: native.joint_counts(one, columns, theta.reshape(1, -1), *pair) for pair in wanted.hist2d}


def _joints(theta: Tensor, wanted: Wanted) -> dict[tuple[Bins, Bins], histograms.Joint]:
    axes = {bins: histograms.Axis(theta, bins) for _, bins in wanted.hist2d}
    return {pair: histograms.Joint(axes[pair[1]], pair[0]) for pair in wanted.hist2d}


def _kept(form: AnyForm, theta: Tensor, room: int, way: Way) -> Tensor | None:
    """Memory for all g_n, if they are worth it: their factors have many positions."""
    if not isinstance(form, Factored | Convolved) or way == "chunks":
        return None
    positions = form.row.shape[2] if isinstance(form, Factored) else form.positions
    size = form.samples * theta.numel() * form.dtype.itemsize
    if way != "form" and (positions < POSITIONS or size > room):
        return None
    return theta.new_empty(form.samples, theta.numel(), dtype=form.dtype)


def _on_gpu(
    form: AnyForm, theta: Tensor, wanted: Wanted, vectors: Mapping[str, Tensor], way: Way = "auto"
) -> Statistics:
    """No number is looked at: what happens depends on shapes alone, and can be captured in a graph."""
    factor = 1.0
    if isinstance(form, Factored | Convolved):
        form, factor = replace(form, factor=1.0), form.factor
    whole = way == "form" or (way != "chunks" and fits(form))
    pieces = [_whole(form)] if whole else (g for _, g in chunks(form, PART // form.dtype.itemsize))
    parts, g = [], theta
    for g in pieces:
        scan = _by_kernels if kernels.usable(g) and kernels.usable(theta) else _by_operations
        parts.append(scan(g, factor, theta, wanted, vectors))
    found = parts[0] if len(parts) == 1 else _added(parts)
    found.sum_sq = None if found.sum_sq is None else found.sum_sq.reshape(form.shape)
    found.formed = g if whole and isinstance(form, Factored | Convolved | Summed) else None
    return found


def fits(form: AnyForm) -> bool:
    """Whether all g_n are formed at once on a GPU."""
    return form.samples * prod(form.shape) * form.dtype.itemsize <= WHOLE


def _whole(form: AnyForm) -> Tensor:
    """All g_n, [N, D]; formed in pieces where that takes much more memory than they do."""
    parts = len(form.parts) if isinstance(form, Summed) else 1
    limit = max(PART // form.dtype.itemsize, 4 * parts * form.samples * prod(form.shape))
    formed = torch.empty(0, dtype=form.dtype, device="cpu")
    for begin, g in chunks(form, limit):
        if len(g) == form.samples:
            return g
        formed = formed if begin else g.new_empty(form.samples, g.shape[1])
        formed[begin : begin + len(g)] = g
    return formed


def _by_kernels(g: Tensor, factor: float, theta: Tensor, wanted: Wanted, vectors: Mapping[str, Tensor]) -> Statistics:
    found = Statistics()
    names, bins = list(vectors), list(wanted.hist1d)
    while (wanted.sq_norm and found.sq_norm is None) or names or bins:
        now, names = names[:VECTORS], names[VECTORS:]
        stacked = torch.stack([vectors[name] for name in now]) if now else None
        counted = bins.pop(0) if bins else None
        found.sq_norm, dots, counts = kernels.scan(g, stacked, counted, factor)
        if dots is not None:
            found.dots.update(zip(now, dots.unbind(0), strict=True))
        if counted is not None and counts is not None:
            found.hist1d[counted] = counts
    found.sq_norm = found.sq_norm if wanted.sq_norm else None
    found.hist2d = {pair: kernels.scan_2d(g, factor, theta, *pair) for pair in wanted.hist2d}
    _elementwise(found, g, factor, wanted)
    return found


def _by_operations(
    g: Tensor, factor: float, theta: Tensor, wanted: Wanted, vectors: Mapping[str, Tensor]
) -> Statistics:
    g = g if factor == 1 else g * factor
    found = Statistics()
    if wanted.sq_norm:
        found.sq_norm = torch.linalg.vector_norm(g, dim=1).square_()
    found.dots = {name: g @ v for name, v in vectors.items()}
    found.hist1d = {bins: histograms.looked_up(g, bins) for bins in wanted.hist1d}
    found.hist2d = {pair: histograms.looked_up_2d(g, theta, *pair) for pair in wanted.hist2d}
    _elementwise(found, g, 1.0, wanted)
    return found


def _elementwise(found: Statistics, g: Tensor, factor: float, wanted: Wanted) -> None:
    if wanted.sum_sq:
        found.sum_sq = torch.linalg.vector_norm(g, dim=0).mul_(factor).square_()
    if wanted.abs_max:
        low, high = torch.aminmax(g) if g.numel() else (g.new_zeros(()),) * 2
        found.abs_max = torch.maximum(low.abs(), high.abs()) * abs(factor)


def _added(parts: list[Statistics]) -> Statistics:
    """Chunks of samples put together."""
    first = parts[0]
    joined = Statistics(
        sq_norm=_joined([part.sq_norm for part in parts if part.sq_norm is not None]) if _has(first.sq_norm) else None,
        dots={name: _joined([part.dots[name] for part in parts]) for name in first.dots},
        hist1d={bins: torch.stack([part.hist1d[bins] for part in parts]).sum(0) for bins in first.hist1d},
        hist2d={pair: torch.stack([part.hist2d[pair] for part in parts]).sum(0) for pair in first.hist2d},
    )
    if _has(first.sum_sq):
        joined.sum_sq = torch.stack([part.sum_sq for part in parts if part.sum_sq is not None]).sum(0)
    if _has(first.abs_max):
        joined.abs_max = torch.stack([part.abs_max for part in parts if part.abs_max is not None]).amax()
    return joined


def _has(tensor: Tensor | None) -> bool:
    return tensor is not None


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
