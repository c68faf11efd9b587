"""What a request asks for, read from its address with care: every value is checked, none is trusted."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, cast
from urllib.parse import parse_qs

from cockpit.core.errors import CockpitError
from cockpit.panels import View

POINTS = 400  # of one series on the deck, where a picture is some 350 pixels wide, when few runs are shown
ROWS = 1200  # of all runs together: a small picture of 20 runs must not take 20 times as long to draw
FEWEST = 60  # of one series
FIELDS = 200  # of an address
LONGEST = 300  # characters of a layer filter


@dataclass(frozen=True)
class Query:
    """A request to the page's interface."""

    runs: tuple[str, ...] = ()
    view: View = field(default_factory=View)
    panel: str = ""
    name: str = ""
    problem: str = ""  # of a benchmark
    format: str = ""
    theme: str = "light"
    more: bool = False  # the deck's second page too
    known: dict[str, tuple[str, str]] = field(default_factory=dict)  # panel: what the page has of it already


def read(raw: str) -> Query:
    """Read the part of an address behind the question mark."""
    try:
        values = parse_qs(raw, max_num_fields=FIELDS)
    except ValueError as error:
        raise CockpitError(f"the address asks for more than {FIELDS} things; choose fewer runs") from error

    def one(key: str) -> str:
        return values.get(key, [""])[0]

    runs = tuple(values.get("run", ()))
    return Query(
        runs=runs,
        view=View(
            axis=cast(Literal["auto", "log", "linear"], _choice("axis", one("axis"), ("auto", "log", "linear"))),
            span=_span(one("lo"), one("hi")),
            smoothing=min(max(_number("smooth", one("smooth") or "0"), 0.0), 0.99),
            layers=_filter(one("layers")),
            step=int(_number("step", one("step"))) if one("step") else None,
            points=_points(one("points"), len(runs)),
            range=cast(Literal["fixed", "auto"], _choice("range", one("range"), ("fixed", "auto"))),
            x=cast(Literal["step", "time", "epoch"], _choice("x", one("x"), ("step", "time", "epoch"))),
            y=cast(Literal["auto", "log", "linear"], _choice("y", one("y"), ("auto", "log", "linear"))),
            band=_choice("noise", one("noise"), ("band", "all")) == "band",
        ),
        panel=one("panel"),
        name=one("name"),
        problem=one("problem"),
        format=one("format"),
        theme=_choice("theme", one("theme"), ("light", "dark")),
        more=one("more") == "1",
        known=_known(one("known")),
    )


def _choice(key: str, given: str, known: tuple[str, ...]) -> str:
    if given and given not in known:
        raise CockpitError(f"{key} is {given!r}; give one of {', '.join(known)}")
    return given or known[0]


def _number(key: str, given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise CockpitError(f"{key} is {given!r}; give a number")
    return number


def _span(low: str, high: str) -> tuple[float, float] | None:
    if not low or not high:
        return None
    span = _number("lo", low), _number("hi", high)
    if span[0] >= span[1]:
        raise CockpitError(f"lo is {low} and hi is {high}; lo must be below hi")
    return span


def _filter(given: str) -> str | None:
    if len(given) > LONGEST:
        raise CockpitError(f"the layer filter has {len(given)} characters; give at most {LONGEST}")
    return given or None


def _points(given: str, runs: int) -> int:
    fair = min(POINTS, max(ROWS // max(runs, 1), FEWEST))
    return min(max(int(_number("points", given)), 50), 20_000) if given else fair


def _known(given: str) -> dict[str, tuple[str, str]]:
    """Read ``panel:spec.data,panel:spec.data``."""
    found = {}
    for part in given.split(","):
        panel, _, marks = part.partition(":")
        spec, _, data = marks.partition(".")
        found[panel] = (spec, data)
    return found
