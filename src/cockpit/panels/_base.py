"""What every panel is made of: a view (how to look) and a panel (what there is to see), both plain data."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from zlib import crc32

from cockpit.core.errors import CockpitError

Spec = dict[str, Any]
Row = dict[str, Any]
Group = Literal["step size", "gradients", "curvature", "performance", "more"]

GROUPS: dict[Group, str] = {
    "step size": "are we crossing the valley?",
    "gradients": "how noisy is the signal?",
    "curvature": "gorge or lake?",
    "performance": "what everybody watches",
    "more": "what else is known",
}


@dataclass(frozen=True)
class View:
    """How to look at runs; the same for all panels of a page."""

    axis: Literal["auto", "log", "linear"] = "auto"  # auto: log when the last step is 1000 or more
    span: tuple[float, float] | None = None  # first and last step to show
    smoothing: float = 0.0  # weight of the past in the exponential mean, 0 to 0.99
    layers: str | None = None  # regular expression or plain text that a layer's name must contain
    step: int | None = None  # histograms and gauges at this step instead of the last
    points: int = 600  # at most, for each series
    range: Literal["fixed", "auto"] = "fixed"  # limits of histograms
    colours: tuple[str, ...] | None = None  # one for each run, so that a run keeps its colour when others come and go
    x: Literal["step", "time", "epoch"] = "step"  # of a time or an epoch a millionth: so are span and step then
    y: Literal["auto", "log", "linear"] = "auto"  # vertical axes; auto: what suits the instrument
    band: bool = False  # of noisy curves the median and the middle 80%, with all values faintly behind

    def __post_init__(self) -> None:
        if self.axis not in ("auto", "log", "linear"):
            raise CockpitError(f"axis is {self.axis!r}; give 'auto', 'log' or 'linear'")
        if self.x not in ("step", "time", "epoch"):
            raise CockpitError(f"x is {self.x!r}; give 'step', 'time' or 'epoch'")
        if self.y not in ("auto", "log", "linear"):
            raise CockpitError(f"y is {self.y!r}; give 'auto', 'log' or 'linear'")
        if self.range not in ("fixed", "auto"):
            raise CockpitError(f"range is {self.range!r}; give 'fixed' or 'auto'")
        if not 0 <= self.smoothing < 1:
            raise CockpitError(f"smoothing is {self.smoothing!r}; give a number from 0 to 0.99")
        if self.points < 8:
            raise CockpitError(f"points is {self.points!r}; give 8 or more")
        if self.span is not None and not self.span[0] < self.span[1]:
            raise CockpitError(f"span is {self.span!r}; give the first and the last step, the first one smaller")


@dataclass(frozen=True)
class Panel:
    """One instrument as data: a Vega-Lite specification without data or size, and the rows it names."""

    id: str  # stable, safe in an address
    title: str
    group: Group
    question: str
    aid: str  # how to read it: what it shows, what healthy looks like, what to do when it does not
    names: tuple[str, ...]  # the quantities it reads
    spec: Spec
    datasets: Mapping[str, list[Row]]
    note: str = ""  # what the panel says in numbers, and how many values are undefined and why
    empty: str | None = None  # why there is nothing to see
    steps: bool = False  # the x axis is the training step
    alarm: str = ""  # what must be read before anything else: since when the run is broken


@dataclass(frozen=True)
class Instrument:
    """The words of a panel; the same whether there are data or not."""

    id: str
    title: str
    group: Group
    question: str
    aid: str
    names: tuple[str, ...]
    steps: bool = True

    def panel(self, spec: Spec, datasets: Mapping[str, list[Row]], note: str = "") -> Panel:
        """Return the panel that shows these rows."""
        return self._make(spec, datasets, note, None)

    def nothing(self, why: str) -> Panel:
        """Return the panel that says why there is nothing to see."""
        return self._make({"mark": "point", "data": {"name": "none"}}, {"none": []}, "", why)

    def _make(self, spec: Spec, datasets: Mapping[str, list[Row]], note: str, empty: str | None) -> Panel:
        words = (self.id, self.title, self.group, self.question, self.aid, self.names)
        return Panel(*words, spec, datasets, note, empty, self.steps)


@dataclass
class Notes:
    """Short facts below a panel's title."""

    facts: list[str] = field(default_factory=list)

    def add(self, fact: str) -> None:
        """Keep a fact, unless it is empty or known."""
        if fact and fact not in self.facts:
            self.facts.append(fact)

    def __str__(self) -> str:
        return " · ".join(self.facts)


def slug(name: str) -> str:
    """A name that is safe in an address; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")
    return plain if plain == name else f"{plain or 'x'}-{crc32(name.encode()):08x}"
