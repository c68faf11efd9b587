# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""Histogram of the products row_no col_ni: only rows that reach beyond the first edges are multiplied out."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from cockpit.engine.kernels.shared_program import GAP, PIECE, RADIUS, clear, settle, tally


@triton.jit
def row_elements(row, o, end, factor, top, bottom, table):
    """The elements of a row, and which of them have products that must be looked at.

    The others are decided by signs: no product reaches the radius, and none but those with zeros is rounded to zero.
    """
    r = tl.load(row + o, mask=o < end, other=0.0).to(tl.float32) * factor
    plain = (tl.abs(r) * top < tl.load(table + RADIUS)) & ((tl.abs(r) * bottom > tl.load(table + GAP)) | (r == 0.0))
    return r, (plain == 0) & (o < end)


@triton.jit
def look_again(
    row,
    first,
    end,
    col,
    start,
    inputs,
    factor,
    top,
    bottom,
    seen,
    minus,
    found,
    counts,
    table,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Count what is large in a tile of products, piece by piece."""
    for piece in range(0, ROWS * COLUMNS, PIECE):
        place = piece + tl.arange(0, PIECE)
        i = start + place % COLUMNS
        r, mixed = row_elements(row, first + place // COLUMNS, end, factor, top, bottom, table)
        x = r * tl.load(col + i, mask=i < inputs, other=0.0).to(tl.float32)
        seen, minus, found = tally(x, mixed & (i < inputs), seen, minus, found, counts, table, WIDTH, STEPS)
    return seen, minus, found


@triton.jit
def extremes(col, inputs, COLUMNS: tl.constexpr):
    """The largest size in a vector, the smallest that is not zero, and how many are above and below zero."""
    highest = tl.zeros([COLUMNS], tl.float32)
    lowest = tl.full([COLUMNS], float("inf"), tl.float32)
    ups = tl.zeros([COLUMNS], tl.int32)
    downs = tl.zeros([COLUMNS], tl.int32)
    for start in range(0, inputs, COLUMNS):
        i = start + tl.arange(0, COLUMNS)
        c = tl.load(col + i, mask=i < inputs, other=0.0).to(tl.float32)
        highest = tl.maximum(highest, tl.abs(c))
        lowest = tl.minimum(lowest, tl.where(c != 0.0, tl.abs(c), float("inf")))
        ups += (c > 0.0).to(tl.int32)
        downs += (c < 0.0).to(tl.int32)
    return tl.max(highest, axis=0), tl.min(lowest, axis=0), tl.sum(ups, axis=0), tl.sum(downs, axis=0)


@triton.jit
def count_mixed(
    row,
    begin,
    end,
    col,
    inputs,
    factor,
    top,
    bottom,
    radius,
    seen,
    counts,
    table,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Count the products of rows that signs do not decide: the large ones, those below zero, and the others."""
    below = tl.zeros([COLUMNS], tl.int32)
    rest = 0
    minus = 0
    found = 0
    for first in range(begin, end, ROWS):
        some, unclear = row_elements(row, first + tl.arange(0, ROWS), end, factor, top, bottom, table)
        lines = tl.sum(unclear.to(tl.int32), axis=0)
        if lines > 0:
            rest += lines * inputs
            some = tl.where(unclear, some, 0.0)
            for start in range(0, inputs, COLUMNS):
                i = start + tl.arange(0, COLUMNS)
                c = tl.load(col + i, mask=i < inputs, other=0.0).to(tl.float32)
                x = some[:, None] * c[None, :]
                below += tl.sum((x < 0.0).to(tl.int32), axis=0)
                if (tl.max(tl.abs(x)) < radius) == 0:
                    seen, minus, found = look_again(
                        row,
                        first,
                        end,
                        col,
                        start,
                        inputs,
                        factor,
                        top,
                        bottom,
                        seen,
                        minus,
                        found,
                        counts,
                        table,
                        WIDTH,
                        STEPS,
                        ROWS,
                        COLUMNS,
                    )
    negative = tl.sum(below) - minus
    return seen, negative, rest - found - negative


@triton.jit(do_not_specialize=["outputs", "units", "blocks", "rows_each", "factor"])
def outer_program(
    row,
    col,
    counts,
    whole,
    table,
    outputs,
    units,
    blocks,
    rows_each,
    factor,
    UNIT: tl.constexpr,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    MOST: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A program: one sample, ``rows_each`` <= MOST elements of its row, all of its col; a row of counts."""
    inputs = units * UNIT
    pid = tl.program_id(0)
    n = (pid // blocks).to(tl.int64)
    row += n * outputs
    col += n * inputs
    counts += pid.to(tl.int64) * WIDTH
    clear(counts, WIDTH)
    seen = tl.zeros([WIDTH], tl.int32)
    radius = tl.load(table + RADIUS)
    begin = pid % blocks * rows_each
    end = tl.minimum(begin + rows_each, outputs)
    top, bottom, up, down = extremes(col, inputs, COLUMNS)
    o = begin + tl.arange(0, MOST)
    r, mixed = row_elements(row, o, end, factor, top, bottom, table)
    plain = (mixed == 0) & (o < end)
    rising = tl.sum((plain & (r > 0.0)).to(tl.int32), axis=0)
    falling = tl.sum((plain & (r < 0.0)).to(tl.int32), axis=0)
    negative = rising * down + falling * up
    other = tl.sum(plain.to(tl.int32), axis=0) * inputs - negative

    if tl.sum(mixed.to(tl.int32), axis=0) > 0:
        seen, minus, more = count_mixed(
            row, begin, end, col, inputs, factor, top, bottom, radius, seen, counts, table, WIDTH, STEPS, ROWS, COLUMNS
        )
        negative += minus
        other += more
    settle(counts, seen, negative, other, whole, table, WIDTH)
