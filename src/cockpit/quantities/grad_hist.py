"""GradHist1d, GradHist2d: histograms of individual gradients."""

from math import isfinite

from cockpit.core.errors import CockpitError, Undefined
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Cost, Kind
from cockpit.core.schedule import Schedule
from cockpit.engine.needs import SQ_NORM, Need
from cockpit.engine.observation import Observation
from cockpit.engine.statistics import Statistic
from cockpit.engine.statistics.bins import Bins
from cockpit.engine.statistics.hist1d import hist1d
from cockpit.engine.statistics.hist2d import hist2d
from cockpit.quantities._base import SingleStepQuantity
from cockpit.quantities.bin_adaptation import BinAdaptation, NoAdaptation, Range


class _GradHist(SingleStepQuantity):
    kind = Kind.HISTOGRAM

    def __init__(
        self, track_schedule: Schedule | None, verbose: bool, axes: list[Bins], adapt: list[BinAdaptation | None]
    ) -> None:
        super().__init__(track_schedule, verbose)
        self._axes, self._edges = axes, tuple(axis.edges for axis in axes)
        self._adapt = [NoAdaptation() if policy is None else policy for policy in adapt]

    @property
    def needs(self) -> frozenset[Need]:
        """The counts, and the needs of the adaptation."""
        counts: frozenset[Need] = frozenset({self._need()})
        return counts.union({SQ_NORM}, *(policy.needs for policy in self._adapt))

    @property
    def deferred(self) -> bool:  # type: ignore[override]
        """False if the limits adapt: the next step needs the new ones."""
        return all(isinstance(policy, NoAdaptation) for policy in self._adapt)

    def _need(self) -> Statistic:
        raise NotImplementedError

    def measure(self, step: Observation) -> Histogram:
        """Return the counts, then adapt the limits for the next steps."""
        if not isfinite(step.sum_of_squares()):
            raise Undefined("individual gradients are not finite")
        histogram = Histogram.from_rows(self._edges, tuple(step.names), step.rows(self._need()))
        for place, policy in enumerate(self._adapt):
            if policy.should_compute(step.step):
                self._axes[place] = Bins(self._axes[place].count, *policy.measure(step))
                self._edges = tuple(axis.edges for axis in self._axes)
        return histogram


class GradHist1d(_GradHist):
    r"""Histogram of all B x D elements of the individual gradients :math:`g_n`; outliers in the outermost bins.

    Args:
        bins: Number of bins.
        range: Limits.
        adapt: Policy that moves the limits, e.g. ``GradAbsMax(schedule)``.
    """

    cost = Cost.ECONOMY

    def __init__(
        self,
        track_schedule: Schedule | None = None,
        verbose: bool = False,
        bins: int = 100,
        range: Range = (-2, 2),
        adapt: BinAdaptation | None = None,
    ) -> None:
        super().__init__(track_schedule, verbose, [_bins(bins, range)], [adapt])

    def _need(self) -> Statistic:
        return hist1d(self._axes[0])


class GradHist2d(_GradHist):
    r"""Histogram of the pairs :math:`(g_{n,j}, \theta_j)`: gradient bins x parameter bins; outliers in the outermost.

    Args:
        bins: Number of gradient and of parameter bins.
        range: Limits of both.
        adapt: Policies that move the limits of both, e.g. ``(GradAbsMax(schedule), ParamAbsMax(schedule))``.
        keep_individual: Accepted for compatibility; counts of every parameter are always kept.
    """

    cost = Cost.FULL

    def __init__(
        self,
        track_schedule: Schedule | None = None,
        verbose: bool = False,
        bins: tuple[int, int] = (40, 50),
        range: tuple[Range, Range] = ((-1, 1), (-2, 2)),
        adapt: tuple[BinAdaptation | None, BinAdaptation | None] = (None, None),
        keep_individual: bool = False,
    ) -> None:
        for name, pair in (("bins", bins), ("range", range), ("adapt", adapt)):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise CockpitError(f"{name} is {pair!r}; give a pair, for the gradient bins and for the parameter bins")
        axes = [_bins(count, limits) for count, limits in zip(bins, range, strict=True)]
        super().__init__(track_schedule, verbose, axes, list(adapt))

    def _need(self) -> Statistic:
        return hist2d(*self._axes)


def _bins(count: int, limits: Range) -> Bins:
    if not isinstance(count, int) or isinstance(count, bool):
        raise CockpitError(f"bins is {count!r}; give a whole number of bins for each axis")
    pair = list(limits) if isinstance(limits, list | tuple) else []
    if len(pair) != 2 or not all(isinstance(end, int | float) and isfinite(end) for end in pair):
        raise CockpitError(f"range is {limits!r} for {count} bins; give two finite numbers (low, high) for each axis")
    return Bins(count, float(pair[0]), float(pair[1]))
