"""Exact counts of the pairs (g_nj, theta_j) in bins, [gradient bins, parameter bins]."""

from functools import cache

from torch import Tensor

from cockpit.engine.statistics._base import At, Statistic
from cockpit.engine.statistics.bins import Bins, tally
from cockpit.layers.forms import Indexed


@cache
def hist2d(gradient: Bins, parameter: Bins) -> Statistic:
    """Counts in these bins; the outermost ones hold everything beyond."""
    shape = gradient.count, parameter.count

    def counts(g: Tensor, beside: Tensor) -> Tensor:
        place = gradient.index(g) * parameter.count + beside
        return tally(place, shape[0] * shape[1]).view(shape)

    def chunk(g: Tensor, at: At) -> Tensor:
        return counts(g, parameter.index(at.parameter))

    def rows(rows: Indexed, at: At) -> Tensor:
        beside = parameter.index(at.parameter)
        touched = rows.beside(beside)
        found = counts(rows.value, touched)
        everywhere = tally(beside, shape[1]) * rows.samples
        found[gradient.near_zero[2]] += everywhere - tally(touched, shape[1])
        return found

    return Statistic("hist2d", "total", chunk, (gradient, parameter), rows=rows)
