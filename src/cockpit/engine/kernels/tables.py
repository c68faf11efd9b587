"""What a kernel has to know of bins: a few numbers and the edges, made once for each device and kept there.

A float32 x is not below a float64 edge exactly if it is not below the least float32 that is not below the edge. So the
edges are kept in float32, rounded up, and kernels compare in float32: every answer is that of the float64 comparison.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine.binning import Bins

HEADER = 16  # numbers before the edges
RADIUS, EDGE, GAP, LOW, INVERSE, LAST, BELOW, ZERO, NIL = range(9)  # their places


@dataclass(frozen=True)
class Table:
    """The bins as kernels read them. ``values``: the header, then the edge below each bin, then NaN."""

    values: Tensor
    steps: int  # halvings that lead from the first guess to the bin
    width: int  # of a row of counts: a power of two that leaves one place unused


@cache  # never given up: a captured graph reads the table at its address
def table_of(bins: Bins, device: torch.device) -> Table:
    """Return the table on ``device``; the first call copies it there, so it must come before a capture."""
    values, steps = numbers(bins)
    width = max(128, 1 << bins.count.bit_length())
    return Table(torch.from_numpy(values).to(device), steps, width)


def numbers(bins: Bins) -> tuple[NDArray[np.float32], int]:
    """Return the numbers of the table, and the number of halvings."""
    inner = bins.edges[1:-1]
    radius, below, zero = bins.near_zero
    near = inner[below] if below != zero else 0.0  # the edge at zero: zero itself, up to rounding
    trusted = _guess_is_near(bins)
    steps = 2 if trusted else max(10, (bins.count - 1).bit_length())  # few values: kernels are built for each
    values = np.full(HEADER + bins.count + 2**steps, np.nan, np.float32)
    values[RADIUS] = max(-round_up(-radius), np.float32(2.0**-149))  # not zero: the zeros that fill up tiles are inside
    values[EDGE] = round_up(near)
    values[GAP] = round_up(abs(near)) if below != zero else -1.0
    values[LOW] = bins.low if trusted else 0.0
    values[INVERSE] = bins.count / (bins.high - bins.low) if trusted else 0.0
    values[LAST] = bins.count - 1
    values[BELOW], values[ZERO] = below, zero
    values[NIL] = np.searchsorted(inner, 0.0, side="right")
    values[HEADER] = -np.inf
    values[HEADER + 1 : HEADER + bins.count] = round_up(inner)
    return values, steps


def round_up(numbers: NDArray[np.float64] | float) -> NDArray[np.float32]:
    """Return the least float32 that is not below each number."""
    exact = np.asarray(numbers, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(np.float32)
        return np.where(rounded < exact, np.nextafter(rounded, np.float32(np.inf)), rounded)


def _guess_is_near(bins: Bins) -> bool:
    """Whether floor((x - low) * inverse) in float32 is never off by more than one bin."""
    span, reach = bins.high - bins.low, max(abs(bins.low), abs(bins.high))
    if not (span > 1e-30 and reach < 1e30):
        return False
    return 2.0**-24 * (2 * reach / span + 3) * bins.count < 0.5
