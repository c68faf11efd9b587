"""Where a hyperparameter is searched: the syntax of a study file, and the values in it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cockpit.results.sweeps.words import told

KINDS = ("log", "log1m", "uniform", "int", "choice")
# The study wrote its bounds as exponents of ten with few digits: these stand for what it meant.
ROUNDED = {0.5: -0.301, 0.8: -0.0969, 0.999: -0.00043}

Space = Mapping[str, Any]  # by hyperparameter, as a study file has it: {"lr": {"log": [1e-4, 1.0]}, "eps": 1e-8}


class WrongSpace(ValueError):
    """What is wrong with a space; where it stands is added by who reads the file."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One hyperparameter: an interval in the scale of its kind, or a list of values."""

    kind: str
    low: float = 0.0  # in the kind's own scale: exponents of ten of "log", of one minus the value of "log1m"
    high: float = 0.0
    values: tuple[Any, ...] = ()  # of "choice" and "fixed"
    steps: int | None = None  # of a grid

    @property
    def tuned(self) -> bool:
        """Whether a draw is needed for it."""
        return self.kind != "fixed"

    def at(self, u: float) -> Any:
        """The value at a number of [0, 1)."""
        if self.kind in ("choice", "fixed"):
            return self.values[min(int(u * len(self.values)), len(self.values) - 1)]
        if self.kind == "int":
            return int(min(self.low + math.floor((self.high - self.low + 1) * u), self.high))
        return self._value(self.low + u * (self.high - self.low))

    def scaled(self, value: Any) -> float:
        """A value in the kind's own scale."""
        if self.kind == "log":
            return math.log10(value)
        return math.log10(1 - value) if self.kind == "log1m" else float(value)

    def boxed(self, values: Sequence[Any]) -> "Axis":
        """The smallest part that contains these values."""
        if self.kind in ("choice", "fixed"):
            return replace(self, values=tuple(value for value in self.values if value in values))
        places = [self.scaled(value) for value in values]
        return replace(self, low=min(places), high=max(places))

    def grid(self) -> list[Any]:
        """All values of a grid; empty where the axis says no number of them."""
        if self.kind in ("choice", "fixed"):
            return list(self.values)
        if self.kind == "int" and self.steps is None:
            return list(range(int(self.low), int(self.high) + 1))
        if self.steps is None:
            return []
        width = (self.high - self.low) / max(self.steps - 1, 1)
        places = [self.low + step * width for step in range(self.steps - 1)] + [self.high]
        if self.kind == "int":
            return sorted({round(place) for place in places})
        return [self._value(place) for place in (places if self.steps > 1 else [self.low])]

    def _value(self, place: float) -> float:
        if self.kind == "log":
            return float(10.0**place)
        return 1 - float(10.0**place) if self.kind == "log1m" else place


def axis(entry: Any, rounded: bool = False) -> Axis:
    """Read one entry of a space; ``rounded``: with the exponents that the study wrote."""
    if not isinstance(entry, Mapping):
        return Axis("fixed", values=(tuple(entry) if isinstance(entry, list) else entry,))
    kinds = [key for key in entry if key in KINDS]
    if len(kinds) != 1:
        given = next((key for key in entry if key not in ("steps", *KINDS)), ", ".join(map(str, entry)) or "{}")
        raise WrongSpace(f"{told(given, KINDS)}; a number fixes it")
    kind = kinds[0]
    if odd := [key for key in entry if key not in (kind, "steps")]:
        raise WrongSpace(f"{kind} has {odd[0]!r} beside it; give nothing else, but steps = n for a grid")
    steps = _steps(kind, entry.get("steps"))
    if kind == "choice":
        return Axis(kind, values=_choices(entry[kind]))
    low, high = _bounds(kind, entry[kind])
    if kind in ("log", "log1m"):
        low, high = _exponent(low, rounded), _exponent(high, rounded)
    return Axis(kind, float(low), float(high), steps=steps)


def axes(space: Space, rounded: bool = False) -> dict[str, Axis]:
    """All axes of a space."""
    return {name: axis(entry, rounded) for name, entry in space.items()}


def _exponent(bound: float, rounded: bool) -> float:
    return ROUNDED[bound] if rounded and bound in ROUNDED else math.log10(bound)


def _steps(kind: str, steps: Any) -> int | None:
    if steps is None:
        return None
    if kind == "choice":
        raise WrongSpace("choice has steps beside it; its values are the steps, leave them out")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise WrongSpace(f"{kind}: steps is {steps!r}; give a whole number, 1 or more")
    return steps


def _choices(values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise WrongSpace(f"choice is {values!r}; give a list of values, [0.0, 0.9] say")
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def _bounds(kind: str, given: Any) -> tuple[float, float]:
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(map(_is_number, given)):
        raise WrongSpace(f"{kind} is {given!r}; give two numbers, [low, high]")
    low, high = given
    if kind in ("log", "log1m") and not 0 < low < high:
        raise WrongSpace(f"{kind} is [{low}, {high}]; its bounds must be 0 < low < high")
    if kind == "log1m" and high > 1:
        raise WrongSpace(f"log1m is [{low}, {high}]; 1 minus the value is drawn, so its bounds are 1 at most")
    if kind == "int" and not (isinstance(low, int) and isinstance(high, int) and low <= high):
        raise WrongSpace(f"int is [{low}, {high}]; its bounds must be whole numbers, low <= high")
    if not low <= high or (kind == "uniform" and low == high):
        raise WrongSpace(f"{kind} is [{low}, {high}]; its bounds must be low < high")
    return low, high


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
