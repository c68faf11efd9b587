"""The four kinds of value; stores, panels and exporters dispatch on these, never on a quantity's name."""

from enum import Enum


class Kind(Enum):
    """What shape a measured value has."""

    SCALAR = "scalar"
    PER_PARAMETER = "per_parameter"
    PER_SAMPLE = "per_sample"
    HISTOGRAM = "histogram"


class Cost(Enum):
    """Cost of a quantity; a preset holds every quantity of the paper up to its level."""

    ECONOMY = 1
    BUSINESS = 2
    FULL = 3
