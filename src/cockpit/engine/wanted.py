"""What is asked of the per-sample gradients of one parameter, and what is found."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from cockpit.engine.statistics.bins import Bins
from cockpit.engine.ways import Way
from cockpit.layers.forms import AnyForm


@dataclass(frozen=True)
class Wanted:
    """What the quantities of a step ask for."""

    sq_norm: bool = False
    sum_sq: bool = False
    abs_max: bool = False
    hist1d: tuple[Bins, ...] = ()
    hist2d: tuple[tuple[Bins, Bins], ...] = ()  # gradient bins, parameter bins
    dot_mean: bool = False

    @property
    def elements(self) -> bool:
        """Whether single elements of g_n matter, not only inner products."""
        return bool(self.sum_sq or self.abs_max or self.hist1d or self.hist2d)


@dataclass(frozen=True)
class Direction:
    """A vector v of the parameter's shape; or coefficient * mean_n g_n of ``mean_of``, which may be the shorter way."""

    vector: Tensor | None
    mean_of: AnyForm | None = None
    coefficient: float = 1.0


Directions = Mapping[str, Direction]


@dataclass
class Statistics:
    """The numbers of one parameter; counts are int64 whatever their size."""

    sq_norm: Tensor | None = None  # ||g_n||^2, [N]
    dots: dict[str, Tensor] = field(default_factory=dict)  # <g_n, v>, [N]
    sum_sq: Tensor | None = None  # sum_n g_n^2, shape of the parameter
    abs_max: Tensor | None = None
    hist1d: dict[Bins, Tensor] = field(default_factory=dict)  # [bins]
    hist2d: dict[tuple[Bins, Bins], Tensor] = field(default_factory=dict)  # [gradient bins, parameter bins]
    dot_mean: Tensor | None = None  # <g_n, mean of all g_m>, [N]
    of_mean: bool = False  # whether dot_mean is so for certain; else the mean was taken to be autograd's gradient
    formed: Tensor | None = None  # g_n without the factor, [N, D], where it was formed as a whole
    way: Way | None = None  # that was taken; None: there is only one
