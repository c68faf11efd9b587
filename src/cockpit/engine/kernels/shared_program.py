# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""What the kernels share: the bin of a number, and counting numbers that lie beyond the first edges.

Kernels go through large tiles in registers and count signs. A tile with numbers beyond the first edges is gone through
once more, in pieces, so that the rare work takes no registers from the frequent one.
"""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from cockpit.engine.kernels import tables

HEADER = tl.constexpr(tables.HEADER)
RADIUS = tl.constexpr(tables.RADIUS)
GAP = tl.constexpr(tables.GAP)
LOW = tl.constexpr(tables.LOW)
INVERSE = tl.constexpr(tables.INVERSE)
LAST = tl.constexpr(tables.LAST)
BELOW = tl.constexpr(tables.BELOW)
ZERO = tl.constexpr(tables.ZERO)
PIECE = tl.constexpr(512)
FEW = tl.constexpr(4)  # a part of a piece


@triton.jit
def number(table, place):
    """A whole number of the header."""
    return tl.load(table + place).to(tl.int32)


@triton.jit
def bin_of(x, wanted, table, STEPS: tl.constexpr):
    """The bin of each ``x`` that is wanted: guessed, then found by halving among the edges near the guess."""
    guess = (x - tl.load(table + LOW)) * tl.load(table + INVERSE)
    last = tl.load(table + LAST)
    guess = tl.where(guess > 0.0, guess, 0.0)  # also if it is NaN
    guess = tl.where(guess < last, guess, last)
    k = tl.maximum(guess.to(tl.int32) - 1, 0)
    for step in tl.static_range(STEPS):
        ahead = k + (1 << (STEPS - 1 - step))
        edge = tl.load(table + HEADER + ahead, mask=wanted, other=0.0)
        k = tl.where(x >= edge, ahead, k)
    return k


@triton.jit
def tally(x, inside, seen, minus, found, row, table, WIDTH: tl.constexpr, STEPS: tl.constexpr):
    """Count what is large in a piece. Returns counts, how many are negative of it so far, and how many there are."""
    large = (tl.abs(x) >= tl.load(table + RADIUS)) & inside
    both = tl.sum(large.to(tl.int32) + ((x < 0.0) & large).to(tl.int32) * 65536, axis=0)
    many = both % 65536
    seen = counted(x, large, many, seen, row, table, WIDTH, STEPS)
    return seen, minus + both // 65536, found + many


@triton.jit
def counted(x, large, many, seen, row, table, WIDTH: tl.constexpr, STEPS: tl.constexpr):
    """Look up the bins of the large ones: few are counted straight in the row of counts, many in ``seen``."""
    if many > 0:
        k = bin_of(x, large, table, STEPS)
        if many * FEW <= x.shape[0]:
            tl.atomic_add(row + k, large.to(tl.int32), mask=large, sem="relaxed")
        else:
            seen += tl.histogram(tl.where(large, k, WIDTH - 1), WIDTH)  # the last place is no bin
    return seen


@triton.jit
def folded(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums of four neighbours, which one thread holds: a quarter of the registers."""
    return tl.sum(tl.reshape(x, [ROWS, COLUMNS // 4, 4]), axis=2)


@triton.jit
def clear(row, WIDTH: tl.constexpr):
    """Set this program's row of counts to zero before any of its threads adds to it."""
    tl.store(row + tl.arange(0, WIDTH), tl.zeros([WIDTH], tl.int32))
    tl.debug_barrier()


@triton.jit
def settle(row, seen, negative, other, whole, table, WIDTH: tl.constexpr):
    """Add up what this program counted, beyond the first edges and the signs of the rest, and add it to the whole."""
    tl.debug_barrier()  # all threads have added to the row
    k = tl.arange(0, WIDTH)
    mine = tl.atomic_add(row + k, seen, sem="relaxed") + seen
    mine += tl.where(k == number(table, BELOW), negative, 0) + tl.where(k == number(table, ZERO), other, 0)
    tl.atomic_add(whole + k, mine.to(tl.int64), mask=(mine != 0) & (k < WIDTH - 1), sem="relaxed")
