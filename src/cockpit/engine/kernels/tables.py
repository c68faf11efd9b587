"""What a kernel has to know of bins: a few numbers and the edges, made once for each device and kept there.

The edges are kept in float32, rounded up (``Bins.thresholds``), and kernels compare in float32: every answer is that of
the comparison in float64.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine.statistics.bins import Bins

HEADER = 16  # numbers before the edges
RADIUS, GAP, LOW, INVERSE, LAST, BELOW, ZERO, WIDE = range(8)  # their places
NEAR = 6  # edges on either side of zero with which elements are compared; only what lies beyond is looked up
WIDER = 4  # times as far out, so much lies beyond that comparing is in vain


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
    radius, below, zero = bins.near_zero
    trusted = _guess_is_near(bins)
    steps = 2 if trusted else max(10, (bins.count - 1).bit_length())  # few values: kernels are built for each
    values = np.full(HEADER + bins.count + max(NEAR + 1, 2**steps), np.nan, np.float32)
    values[RADIUS] = rounded_down(radius)
    values[GAP] = 0.0 if below != zero else -1.0  # products of two numbers must exceed it to have a sign that counts
    values[LOW] = bins.low if trusted else 0.0
    values[INVERSE] = bins.count / (bins.high - bins.low) if trusted else 0.0
    values[LAST] = bins.count - 1
    values[BELOW], values[ZERO] = below, zero
    values[HEADER] = -np.inf
    values[HEADER + 1 : HEADER + bins.count] = bins.thresholds
    values[WIDE] = min(WIDER * NEAR * (bins.high - bins.low) / bins.count, 1e38)
    return values, steps


def rounded_down(radius: float) -> np.float32:
    """Return a float32 just below the radius, but not zero: the zeros that fill up tiles must lie inside."""
    with np.errstate(over="ignore", under="ignore"):
        return max(np.nextafter(np.float32(radius), np.float32(0)), np.float32(2.0**-149))


def _guess_is_near(bins: Bins) -> bool:
    """Whether floor((x - low) * inverse) in float32 is never off by more than one bin."""
    span, reach = bins.high - bins.low, max(abs(bins.low), abs(bins.high))
    if not (span > 1e-30 and reach < 1e30):
        return False
    return 2.0**-24 * (2 * reach / span + 3) * bins.count < 0.5
