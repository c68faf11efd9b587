# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""One pass over formed per-sample gradients: squares, products with vectors, and the histogram."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from cockpit.engine.kernels import tables
from cockpit.engine.kernels.shared_program import BELOW, HEADER, RADIUS, ZERO, clear, counted, folded, number, settle

PIECE = tl.constexpr(1024)
NEAR = tl.constexpr(tables.NEAR)
WIDE = tl.constexpr(tables.WIDE)


@triton.jit
def product(x, vectors, columns, inside, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Terms of the inner product of each row with one vector."""
    v = tl.load(vectors + columns, mask=inside, other=0.0)
    return folded(x * v[None, :], ROWS, COLUMNS)


@triton.jit
def multiply(
    x,
    vectors,
    size,
    columns,
    inside,
    dot0,
    dot1,
    dot2,
    dot3,
    VECTORS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add a tile's products with the vectors."""
    if VECTORS > 0:
        dot0 += product(x, vectors, columns, inside, ROWS, COLUMNS)
    if VECTORS > 1:
        dot1 += product(x, vectors + size, columns, inside, ROWS, COLUMNS)
    if VECTORS > 2:
        dot2 += product(x, vectors + 2 * size, columns, inside, ROWS, COLUMNS)
    if VECTORS > 3:
        dot3 += product(x, vectors + 3 * size, columns, inside, ROWS, COLUMNS)
    return dot0, dot1, dot2, dot3


@triton.jit
def put(to, samples, real, square, dot0, dot1, dot2, dot3, VECTORS: tl.constexpr):
    """Store the sums of each sample."""
    tl.store(to, tl.sum(square, axis=1), mask=real)
    if VECTORS > 0:
        tl.store(to + samples, tl.sum(dot0, axis=1), mask=real)
    if VECTORS > 1:
        tl.store(to + 2 * samples, tl.sum(dot1, axis=1), mask=real)
    if VECTORS > 2:
        tl.store(to + 3 * samples, tl.sum(dot2, axis=1), mask=real)
    if VECTORS > 3:
        tl.store(to + 4 * samples, tl.sum(dot3, axis=1), mask=real)


@triton.jit
def beyond(top, low, high):
    """Whether a tile may have elements outside [low, high); ``top``: its largest size; NaN: there is no ``high``."""
    return (((top < high) == 0) & (high == high)) | ((top <= -low) == 0)


@triton.jit
def part(g, first, start, samples, size, factor, begin, COUNT: tl.constexpr, COLUMNS: tl.constexpr):
    """Some elements of a tile, zeros where there are none."""
    place = begin + tl.arange(0, COUNT)
    n = first + place // COLUMNS
    d = start + place % COLUMNS
    inside = (n < samples) & (d < size)
    return tl.load(g + n.to(tl.int64) * size + d, mask=inside, other=0.0).to(tl.float32) * factor


@triton.jit
def look_again(
    g,
    first,
    start,
    samples,
    size,
    factor,
    x,
    top,
    seen,
    row,
    table,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Count a tile with elements beyond the first edges, all of which were counted beside zero.

    Edge by edge, those beyond are moved out by one bin; what is left beyond the last edge is looked up, piece by piece.
    """
    k = tl.arange(0, WIDTH)
    below, zero = number(table, BELOW), number(table, ZERO)
    edges = tl.where(top < tl.load(table + WIDE), NEAR, 0)
    low = tl.load(table + HEADER + below)
    high = tl.load(table + HEADER + zero + 1)
    for _ in range(edges):
        if beyond(top, low, high):
            both = tl.sum((x >= high).to(tl.int32) + (x < low).to(tl.int32) * 65536)
            seen += tl.where(k == zero + 1, both % 65536, 0) - tl.where(k == zero, both % 65536, 0)
            seen += tl.where(k == below - 1, both // 65536, 0) - tl.where(k == below, both // 65536, 0)
        zero += 1
        below = tl.maximum(below - 1, 0)  # below which there is no edge
        low = tl.load(table + HEADER + below)
        high = tl.load(table + HEADER + zero + 1)
    if beyond(top, low, high):
        for begin in range(0, ROWS * COLUMNS, PIECE):
            y = part(g, first, start, samples, size, factor, begin, PIECE, COLUMNS)
            both = tl.sum((y >= high).to(tl.int32) + (y < low).to(tl.int32) * 65536)
            above, under = both % 65536, both // 65536
            seen -= tl.where(k == zero, above, 0) + tl.where(k == below, under, 0)
            seen = counted(y, (y >= high) | (y < low), above + under, seen, row, table, WIDTH, STEPS)
    return seen


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
        radius = tl.load(table + RADIUS)
    for start in range(begin, end, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        inside = columns < size
        x = tl.load(lines + columns[None, :], mask=real[:, None] & inside[None, :], other=0.0).to(tl.float32) * factor
        square += folded(x * x, ROWS, COLUMNS)
        dot0, dot1, dot2, dot3 = multiply(
            x, vectors, size, columns, inside, dot0, dot1, dot2, dot3, VECTORS, ROWS, COLUMNS
        )
        if COUNT:
            below += folded((x < 0.0).to(tl.int32), ROWS, COLUMNS)
            top = tl.max(tl.abs(x))
            if (top < radius) == 0:
                seen = look_again(
                    g, first, start, samples, size, factor, x, top, seen, row, table, WIDTH, STEPS, ROWS, COLUMNS
                )
    put(sums + split.to(tl.int64) * (1 + VECTORS) * samples + n, samples, real, square, dot0, dot1, dot2, dot3, VECTORS)
    if COUNT:
        elements = tl.sum(real.to(tl.int32)) * (end - begin)
        negative = tl.sum(below)
        settle(row, seen, negative, elements - negative, whole, table, WIDTH)
