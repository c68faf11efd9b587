# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""One pass over formed per-sample gradients: squares, products with vectors, and the histogram."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from cockpit.engine.kernels.shared_program import RADIUS, clear, folded, settle, tally

PIECE = tl.constexpr(1024)


@triton.jit
def product(x, vectors, columns, inside, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Terms of the inner product of each row with one vector."""
    v = tl.load(vectors + columns, mask=inside, other=0.0)
    return folded(x * v[None, :], ROWS, COLUMNS)


@triton.jit
def look_again(
    g,
    first,
    start,
    samples,
    size,
    factor,
    seen,
    minus,
    found,
    row,
    table,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Count what is large in a tile, piece by piece."""
    for piece in range(0, ROWS * COLUMNS, PIECE):
        place = piece + tl.arange(0, PIECE)
        n = first + place // COLUMNS
        d = start + place % COLUMNS
        inside = (n < samples) & (d < size)
        x = tl.load(g + n.to(tl.int64) * size + d, mask=inside, other=0.0).to(tl.float32) * factor
        seen, minus, found = tally(x, inside, seen, minus, found, row, table, WIDTH, STEPS)
    return seen, minus, found


@triton.jit(do_not_specialize=["samples", "units", "splits", "tiles_each", "factor"])
def scan_program(
    g,
    vectors,
    sums,
    counts,
    whole,
    table,
    samples,
    units,
    splits,
    tiles_each,
    factor,
    UNIT: tl.constexpr,
    VECTORS: tl.constexpr,
    COUNT: tl.constexpr,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """A program: ROWS samples, one split of the elements. Sums [splits, 1 + VECTORS, samples], a row of counts each."""
    size = units * UNIT  # known to be a multiple of UNIT: wide loads
    pid = tl.program_id(0)
    split = pid % splits
    first = pid // splits * ROWS
    n = first + tl.arange(0, ROWS)
    real = n < samples
    begin = split * tiles_each * COLUMNS
    end = tl.minimum(begin + tiles_each * COLUMNS, size)
    lines = g + (n.to(tl.int64) * size)[:, None]
    square = tl.zeros([ROWS, COLUMNS // 4], tl.float32)
    dot0 = tl.zeros([ROWS, COLUMNS // 4], tl.float32)
    dot1 = tl.zeros([ROWS, COLUMNS // 4], tl.float32)
    dot2 = tl.zeros([ROWS, COLUMNS // 4], tl.float32)
    dot3 = tl.zeros([ROWS, COLUMNS // 4], tl.float32)
    if COUNT:
        row = counts + pid.to(tl.int64) * WIDTH
        clear(row, WIDTH)
        seen = tl.zeros([WIDTH], tl.int32)
        below = tl.zeros([ROWS, COLUMNS // 4], tl.int32)
        minus = 0
        found = 0
        radius = tl.load(table + RADIUS)
    for start in range(begin, end, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        inside = columns < size
        valid = real[:, None] & inside[None, :]
        x = tl.load(lines + columns[None, :], mask=valid, other=0.0).to(tl.float32) * factor
        square += folded(x * x, ROWS, COLUMNS)
        if VECTORS > 0:
            dot0 += product(x, vectors, columns, inside, ROWS, COLUMNS)
        if VECTORS > 1:
            dot1 += product(x, vectors + size, columns, inside, ROWS, COLUMNS)
        if VECTORS > 2:
            dot2 += product(x, vectors + 2 * size, columns, inside, ROWS, COLUMNS)
        if VECTORS > 3:
            dot3 += product(x, vectors + 3 * size, columns, inside, ROWS, COLUMNS)
        if COUNT:
            below += folded((x < 0.0).to(tl.int32), ROWS, COLUMNS)
            if (tl.max(tl.abs(x)) < radius) == 0:
                seen, minus, found = look_again(
                    g, first, start, samples, size, factor, seen, minus, found, row, table, WIDTH, STEPS, ROWS, COLUMNS
                )
    to = sums + split.to(tl.int64) * (1 + VECTORS) * samples + n
    tl.store(to, tl.sum(square, axis=1), mask=real)
    if VECTORS > 0:
        tl.store(to + samples, tl.sum(dot0, axis=1), mask=real)
    if VECTORS > 1:
        tl.store(to + 2 * samples, tl.sum(dot1, axis=1), mask=real)
    if VECTORS > 2:
        tl.store(to + 3 * samples, tl.sum(dot2, axis=1), mask=real)
    if VECTORS > 3:
        tl.store(to + 4 * samples, tl.sum(dot3, axis=1), mask=real)
    if COUNT:
        elements = tl.sum(real.to(tl.int32)) * (end - begin)
        negative = tl.sum(below) - minus
        settle(row, seen, negative, elements - found - negative, whole, table, WIDTH)
