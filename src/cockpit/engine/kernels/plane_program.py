# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""Histogram of pairs (element of a per-sample gradient, parameter), for outer products and for formed gradients."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from cockpit.engine.kernels.shared_program import BELOW, PIECE, RADIUS, ZERO, bin_of, number

SAMPLES = tl.constexpr(4)  # looked at before anything is decided
NARROW = tl.constexpr(8)  # parameter bins of a tile that are summed up before they are counted


@triton.jit
def tile_of(left, right, n, end, o, i, outputs, inputs, factor, OUTER: tl.constexpr):
    """A tile of g_n: row_n col_n^T, or read; zeros where there is nothing."""
    height = tl.where(n < end, outputs, 0)
    if OUTER:
        r = tl.load(left + n * outputs.to(tl.int64) + o, mask=o < height, other=0.0).to(tl.float32) * factor
        c = tl.load(right + n * inputs.to(tl.int64) + i, mask=i < inputs, other=0.0).to(tl.float32)
        x = r[:, None] * c[None, :]
    else:
        place = (o * inputs)[:, None] + i[None, :]
        inside = (o < height)[:, None] & (i < inputs)[None, :]
        x = tl.load(left + n * (outputs * inputs).to(tl.int64) + place, mask=inside, other=0.0).to(tl.float32) * factor
    return x


@triton.jit
def elements_of(left, right, n, o, i, inside, outputs, inputs, factor, OUTER: tl.constexpr):
    """The same, for a vector of places."""
    if OUTER:
        r = tl.load(left + n * outputs.to(tl.int64) + o, mask=inside, other=0.0).to(tl.float32) * factor
        x = r * tl.load(right + n * inputs.to(tl.int64) + i, mask=inside, other=0.0).to(tl.float32)
    else:
        start = n * (outputs * inputs).to(tl.int64)
        x = tl.load(left + start + o * inputs + i, mask=inside, other=0.0).to(tl.float32) * factor
    return x


@triton.jit
def add_signs(below, other, k, inside, counts, low, zero, bins):
    """Add the counts of each parameter to its bin: summed up first where a tile has few bins, as it mostly has."""
    least = tl.min(tl.where(inside, k, bins))
    most = tl.max(tl.where(inside, k, -1))
    if most - least < NARROW:
        for b in range(least, most + 1):
            here = inside & (k == b)
            tl.atomic_add(counts + low * bins + b, tl.sum(tl.where(here, below, 0)).to(tl.int64), sem="relaxed")
            tl.atomic_add(counts + zero * bins + b, tl.sum(tl.where(here, other, 0)).to(tl.int64), sem="relaxed")
    else:
        tl.atomic_add(counts + low * bins + k, below.to(tl.int64), mask=inside & (below > 0), sem="relaxed")
        tl.atomic_add(counts + zero * bins + k, other.to(tl.int64), mask=inside & (other > 0), sem="relaxed")


@triton.jit(do_not_specialize=["samples", "outputs", "units", "bins", "copies", "cells", "splits", "each", "factor"])
def plane_program(
    left,
    right,
    theta,
    counts,
    table,
    parameter_table,
    samples,
    outputs,
    units,
    bins,
    copies,
    cells,
    splits,
    each,
    factor,
    UNIT: tl.constexpr,
    OUTER: tl.constexpr,
    STEPS: tl.constexpr,
    PARAMETER_STEPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A program: a tile of the parameter, ``each`` samples. Counts [copies, gradient bins, parameter bins]."""
    inputs = units * UNIT
    pid = tl.program_id(0)
    counts += (pid % copies).to(tl.int64) * cells
    across = tl.cdiv(inputs, COLUMNS)
    corner = pid // splits // across * ROWS, pid // splits % across * COLUMNS
    o = corner[0] + tl.arange(0, ROWS)
    i = corner[1] + tl.arange(0, COLUMNS)
    inside = (o < outputs)[:, None] & (i < inputs)[None, :]
    radius = tl.load(table + RADIUS)
    begin = pid % splits * each
    end = tl.minimum(begin + each, samples)
    below = tl.zeros([ROWS, COLUMNS], tl.int32)
    beyond = tl.zeros([ROWS, COLUMNS], tl.int32)
    for first in range(begin, end, SAMPLES):
        top = tl.zeros([ROWS, COLUMNS], tl.float32)
        for step in tl.static_range(SAMPLES):
            x = tile_of(left, right, first + step, end, o, i, outputs, inputs, factor, OUTER)
            below += (x < 0.0).to(tl.int32)
            top = tl.maximum(top, tl.abs(x))
        if (tl.max(top) < radius) == 0:
            for n in range(first, tl.minimum(first + SAMPLES, end)):
                x = tile_of(left, right, n, end, o, i, outputs, inputs, factor, OUTER)
                beyond += (tl.abs(x) >= radius).to(tl.int32)
                below -= ((x < 0.0) & (tl.abs(x) >= radius)).to(tl.int32)
            for n in range(first, tl.minimum(first + SAMPLES, end)):
                for piece in range(0, ROWS * COLUMNS, PIECE):
                    place = piece + tl.arange(0, PIECE)
                    p = corner[0] + place // COLUMNS
                    q = corner[1] + place % COLUMNS
                    ok = (p < outputs) & (q < inputs)
                    y = elements_of(left, right, n, p, q, ok, outputs, inputs, factor, OUTER)
                    wanted = (tl.abs(y) >= radius) & ok
                    if tl.max(wanted.to(tl.int32), axis=0) > 0:
                        t = tl.load(theta + p * inputs + q, mask=wanted, other=0.0).to(tl.float32)
                        cell = bin_of(y, wanted, table, STEPS) * bins + bin_of(
                            t, wanted, parameter_table, PARAMETER_STEPS
                        )
                        tl.atomic_add(counts + cell, wanted.to(tl.int64), mask=wanted, sem="relaxed")
    parameter = tl.load(theta + (o * inputs)[:, None] + i[None, :], mask=inside, other=0.0).to(tl.float32)
    k = bin_of(parameter, inside, parameter_table, PARAMETER_STEPS)
    other = (end - begin) - beyond - below
    add_signs(below, other, k, inside, counts, number(table, BELOW), number(table, ZERO), bins)
