"""Loops for a CPU, compiled on the user's machine: one pass where torch takes several, one call where it takes dozens.

Every function has a counterpart in torch's operations, which runs where there is no compiler (``usable`` is False).
"""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from cockpit.engine.native.build import library, problem
from cockpit.engine.native.calls import LARGE, Pointers, call, repeated, whole_numbers, witnessed
from cockpit.engine.native.calls import threads as _threads
from cockpit.engine.statistics.bins import Bins

__all__ = [
    "LARGE",
    "Pointers",
    "centres",
    "cross_entropy",
    "cross_products",
    "joint_counts",
    "mix_rows",
    "moments",
    "motion",
    "noise_to_curvature",
    "orthogonalise",
    "outer_counts",
    "pack",
    "packable",
    "pair_counts",
    "pair_products",
    "problem",
    "repeated",
    "row_products",
    "row_sums",
    "scaled",
    "scan",
    "scatter",
    "shares",
    "signal_to_noise",
    "stack",
    "usable",
    "vector_sums",
    "witnessed",
]

FEW = 2**12  # numbers up to which torch takes longer to begin than a loop to end

PANEL, DEEP = 16, 128  # rows whose numbers are laid out side by side, columns that are at a time
SIDE_BY_SIDE = 8  # products that are compared at once; where signs decide, even more

_room = partial(torch.empty, dtype=torch.float64, device=torch.device("cpu"))  # whatever the user's defaults are

PACKABLE = {torch.float32: 0, torch.float64: 1, torch.int64: 2}


def usable(*tensors: Tensor) -> bool:
    """Whether the loops can read these tensors."""
    for tensor in tensors:
        if tensor.dtype is not torch.float32 or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            return False
    return library() is not None


def packable(tensors: Iterable[Tensor]) -> bool:
    """Whether :func:`pack` takes all of them."""
    return all(t.device.type == "cpu" and t.dtype in PACKABLE for t in tensors) and library() is not None


def outer_counts(row: Tensor, col: Tensor, bins: Bins) -> Tensor:
    """Histogram of row_no * col_ni, for rows [N, O] and [N, I]: [bins]."""
    row, col = _rows(row), _rows(col)
    samples, rows, columns = len(row), row.shape[1], col.shape[1]
    counts = _room(bins.count, dtype=torch.int64)
    threads = _threads(samples * (rows + columns))  # mostly signs are counted
    call("outer_counts", row, row.stride(0), col, col.stride(0), samples, rows, columns, *_edges(bins), counts, threads)
    return counts


def joint_counts(row: Tensor, col: Tensor, theta: Tensor, bins: Bins, beside: Bins) -> Tensor:
    """Histogram of (row_no * col_ni, theta_oi) over n, o, i: [bins, bins of the parameter]."""
    row, col, theta = _rows(row), _rows(col), theta.contiguous()
    samples, rows, columns = len(row), row.shape[1], col.shape[1]
    counts = _room(bins.count, beside.count, dtype=torch.int64)
    given = row, row.stride(0), col, col.stride(0), theta, samples, rows, columns
    threads = _threads(samples * rows * columns // SIDE_BY_SIDE)
    call("joint_counts", *given, *_edges(bins), *_edges(beside), counts, threads)
    return counts


def pair_counts(g: Tensor, places: Tensor, width: int, bins: Bins, counts: Tensor) -> None:
    """Add the histogram of (g_nd, bin of theta_d) to ``counts``, [bins, width], for bins ``places``, [D] int32."""
    g = _rows(g)
    given = g, g.stride(0), *g.shape, places, width
    call("pair_counts", *given, *_edges(bins), counts, _threads(g.numel()))


def scan(
    g: Tensor,
    vectors: Sequence[Tensor],
    rows: Tensor | None,
    squares: Tensor | None,
    histogram: tuple[Bins, Tensor] | None = None,
    top: Tensor | None = None,
) -> None:
    """Read g [N, D] once: ||g_n||^2 and <g_n, v> for each v [D] are put into ``rows`` [1 + vectors, N].

    g_n^2 is added to ``squares`` [D], what falls into each bin to the counts of ``histogram``; ``top`` becomes the
    largest size of an element if that is larger.
    """
    g = _rows(g)
    bins, counts = (None, None) if histogram is None else histogram
    edges = _NO_EDGES if bins is None else _edges(bins)
    step, threads = 0 if rows is None else rows.stride(0), _threads(g.numel())
    beside = Pointers([v.contiguous() for v in vectors])
    call("scan", g, g.stride(0), *g.shape, beside, len(vectors), *edges, counts, rows, step, squares, top, threads)


def row_products(one: Tensor, other: Tensor, factor: float = 1.0) -> Tensor:
    """factor * sum_m one_nm other_nm, [N]."""
    one, other = _rows(one), _rows(other)
    found = _room(len(one), dtype=torch.float32)
    call("row_products", one, one.stride(0), other, other.stride(0), *one.shape, factor, found)
    return found


def pair_products(row: Tensor, col: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """factor * sum_m <row_n, row_m> <col_n, col_m>, and <row_n, row_n> <col_n, col_n>; [N] each."""
    sums, norms = _room(2, len(row), dtype=torch.float32).unbind()
    _all_pairs((row, col), None, factor, sums, norms)
    return sums, norms


def cross_products(mine: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor], factor: float) -> Tensor:
    """factor * sum_m <row_n, row'_m> <col_n, col'_m> for rows and columns of two batches; [N]."""
    sums = _room(len(mine[0]), dtype=torch.float32)
    _all_pairs(mine, others, factor, sums, None)
    return sums


def _all_pairs(
    mine: tuple[Tensor, Tensor],
    others: tuple[Tensor, Tensor] | None,
    factor: float,
    sums: Tensor,
    norms: Tensor | None,
) -> None:
    given = [_rows(matrix) for matrix in (*mine, *(others or mine))]
    row, col, other = given[0], given[1], given[2]
    steps, threads = whole_numbers([matrix.stride(0) for matrix in given]), _threads(row.numel() + col.numel())
    room = _room(threads, _pair_room(len(row), len(other)), dtype=torch.float32)
    sizes = row.shape[1], col.shape[1], len(row), len(other)
    matrices = given if others else (row, col, None, None)
    call("pair_products", *matrices, steps, *sizes, factor, sums, norms, room, threads)


@cache
def _pair_room(count: int, others: int) -> int:
    """Numbers of each thread (see ``pairs.c``)."""
    panels, theirs = -(-count // PANEL), -(-others // PANEL)
    return 2 * panels * theirs * PANEL**2 + (panels + theirs) * PANEL * DEEP


def moments(rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean, sample variance and mean absolute value of numbers of each sample, summed over rows [P, N]; [3].

    ``rows`` may be in double precision. ``weights``: what each row is multiplied with, in double precision.
    """
    rows, found = rows.contiguous(), _room(3)
    call("moments", rows, rows.dtype is torch.float64, weights, *rows.shape, found)
    return found


def row_sums(rows: Tensor) -> Tensor:
    """Sum of each row [P, N], in double precision; [P]."""
    rows, found = rows.contiguous(), _room(len(rows))
    call("row_sums", rows, *rows.shape, found)
    return found


def shares(losses: Tensor, total: Tensor, known: float, arrived: Tensor) -> Tensor:
    """Losses times arrived * total / their sum, or times arrived * known if that is zero; [N], double precision."""
    losses, found = losses.contiguous(), _room(len(losses))
    call("shares", losses, len(losses), total, known, arrived, found)
    return found


def scaled(x: Tensor, factor: float) -> Tensor:
    """x * factor, for few numbers."""
    x = x.contiguous()
    found = torch.empty_like(x)
    call("scaled", x, x.numel(), factor, found)
    return found


def stack(rows: Sequence[Tensor]) -> Tensor:
    """Rows of one shape and kind, one below the other."""
    rows = [row.contiguous() for row in rows]
    found = _room(len(rows), *rows[0].shape, dtype=rows[0].dtype)
    call("stacked", Pointers(rows), len(rows), rows[0].nbytes, found)
    return found


def cross_entropy(logits: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """Loss of each sample, for logits [N, C] and classes [N] that were trained on; for few numbers."""
    logits, targets, found = logits.contiguous(), targets.contiguous(), _room(len(logits), dtype=torch.float32)
    call("cross_entropy", logits, targets, *logits.shape, ignored, found)
    return found


def scatter(squares: Tensor, dots: Tensor) -> Tensor:
    """Sum of all squared lengths, and of the squared inner products of each sample, from rows [P, N]; [2]."""
    squares, dots, found = squares.contiguous(), dots.contiguous(), _room(2)
    call("scatter", squares, dots, *dots.shape, found)
    return found


def centres(dots: Tensor) -> Tensor:
    """Mean and mean absolute value of each row [P, N]; [2, P]."""
    dots, found = dots.contiguous(), _room(2, len(dots))
    call("centres", dots, *dots.shape, found)
    return found


def noise_to_curvature(sum_sq: Tensor, diagonal: Tensor | None, epsilon: float) -> Tensor:
    """sum_j s_j / (h_j + epsilon), in double precision."""
    beside = None if diagonal is None else diagonal.contiguous()
    sum_sq, found = sum_sq.contiguous(), _room(())
    call("noise_to_curvature", sum_sq, beside, sum_sq.numel(), epsilon, found, _threads(sum_sq.numel()))
    return found


def signal_to_noise(mean: Tensor, sum_sq: Tensor, size: int, correction: int, epsilon: float) -> Tensor:
    """(sum_j g_j^2 / var_j, number of terms), [2], in double precision."""
    mean, sum_sq, found = mean.contiguous(), sum_sq.contiguous(), _room(2)
    given = mean, sum_sq, mean.numel(), size, size / (size - correction), epsilon
    call("signal_to_noise", *given, found, _threads(mean.numel()))
    return found


def vector_sums(one: Sequence[Tensor], other: Sequence[Tensor] | None = None, apart: bool = False) -> Tensor:
    """||v||^2 of each vector; with ``other`` <v, w> of each pair, or ||v - w||^2 if ``apart``; [P]."""
    one = [v.contiguous() for v in one]
    beside = None if other is None else Pointers([w.contiguous() for w in other])
    sizes, found = _sizes(one), _room(len(one))
    call("vector_sums", Pointers(one), beside, sizes, len(one), apart, found, _threads(sum(v.numel() for v in one)))
    return found


def orthogonalise(rows: Tensor, vector: Tensor, newest: int, near: bool = False) -> Tensor:
    """Remove the parts of a vector along rows [k, D], in place; these parts, and the length of what is left, [k + 1].

    More than rounding errors it has only along the ``newest`` rows; ``near``: errors along the others are left.
    """
    found = _room(len(rows) + 1).zero_()
    there = rows[-newest:] if near else rows
    given = there, vector.numel(), len(there), newest, vector, found[-len(there) - 1 :], near
    call("orthogonalise", *given, _threads(vector.numel()))
    return found


def mix_rows(rows: Tensor, mix: Tensor) -> None:
    """Put sum_i mix_ki row_i in place of the first of the rows [n, D], for ``mix`` [k, n] with a small k."""
    call("mix_rows", rows, rows.shape[1], len(rows), len(mix), mix.contiguous(), _threads(rows.numel()))


def motion(
    now: Sequence[Tensor],
    before: Sequence[Tensor],
    update: Sequence[Tensor | None],
    gradient: Sequence[Tensor] | None,
    most: int,
) -> Tensor:
    """Put update = now - before there if wanted; six sums of each, [P, 6].

    ||update||^2, <update, gradient>, ||before||^2, ||gradient||^2; of the first ``most`` elements what is left of
    ||update||^2 when the best multiple of the gradient is taken away, and ||before||^2.
    """
    found, sizes = _room(len(now), 6), _sizes(now)
    slope = None if gradient is None else Pointers(gradient)
    threads = _threads(sum(v.numel() for v in now))
    call("motion", Pointers(now), Pointers(before), Pointers(update), slope, sizes, len(now), most, found, threads)
    return found


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """All elements in one vector of double precision."""
    tensors = [tensor.contiguous() for tensor in tensors]
    kinds = whole_numbers([PACKABLE[tensor.dtype] for tensor in tensors])
    found = _room(sum(tensor.numel() for tensor in tensors))
    call("pack", Pointers(tensors), kinds, _sizes(tensors), len(tensors), found)
    return found


_NO_EDGES = None, 0, 0.0, 0, 0


@cache
def _edges(bins: Bins) -> tuple[Tensor, int, float, int, int]:
    edges = torch.tensor(bins.thresholds, dtype=torch.float32, device="cpu")
    return edges, len(edges), *bins.near_zero


def _rows(matrix: Tensor) -> Tensor:
    """A matrix whose rows are not scattered in memory."""
    return matrix if matrix.stride(1) == 1 or matrix.shape[1] == 1 else matrix.contiguous()


def _sizes(tensors: Sequence[Tensor]) -> Any:
    return whole_numbers([tensor.numel() for tensor in tensors])
