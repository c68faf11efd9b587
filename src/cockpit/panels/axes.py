"""Scales and ticks; all that depends on data is a parameter, so a page may move an axis without a new specification."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cockpit.core.source import Values
from cockpit.panels._base import Spec
from cockpit.panels.clock import SECOND
from cockpit.panels.runs import Runs

SHORT = (  # short labels: 20k, 1M, 0.05, 1e-4
    "datum.value === 0 ? '0' : abs(datum.value) >= 1e4 ? format(datum.value, '~s') : "
    "abs(datum.value) < 1e-3 ? replace(format(datum.value, '.1~e'), '−', '-') : format(datum.value, '~g')"
)
_STEP = (
    "datum.value % 1 ? '' : "
    "(datum.index === 0 || hi - lo <= 1 ? 'step ' : '') + "
    "(datum.value >= 1e4 ? format(datum.value, '~s') : format(datum.value, '~r'))"
)
_DECADES = "[0,10,100,1e3,1e4,1e5,1e6,1e7,1e8,1e9]"
_EVEN = "pow(10, floor(log((hi-lo)/2)/LN10))"  # a power of ten that divides the span into 2 to 20 parts
_NICE = f"({_EVEN} * ((hi-lo)/{_EVEN} > 10 ? 5 : (hi-lo)/{_EVEN} > 5 ? 2 : 1))"
_TICKS = (  # powers of ten between lo and hi; even ticks when they lie so close that there are few of these
    f"hi > 30 * max(lo, 1) ? slice({_DECADES}, lo <= 0 ? 0 : max(ceil(log(lo)/LN10 - 1e-9), 1),"
    f" floor(log(hi)/LN10 + 1e-9) + 1) : sequence(ceil(lo/{_NICE})*{_NICE}, hi + {_NICE}/1e6, {_NICE})"
)


_UNIT = "hi < 12e7 ? 1e6 : hi < 72e8 ? 6e7 : 36e8"  # of the wall clock: seconds, minutes or hours
_EVEN_TIMES = _NICE.replace("(hi-lo)", "((hi-lo)/unit)")
_TIMES = f"sequence(ceil(lo/({_EVEN_TIMES}*unit))*{_EVEN_TIMES}*unit, hi + {_EVEN_TIMES}*unit/1e6, {_EVEN_TIMES}*unit)"
_LONG_TIMES = (
    "slice([0,1e6,1e7,1e8,1e9,1e10,1e11,1e12], lo <= 0 ? 0 : max(ceil(log(lo)/LN10 - 1e-9) - 5, 1),"
    " max(floor(log(hi)/LN10 + 1e-9) - 4, 1))"
)
_TIME = "format(datum.value / unit, '~g') + (unit === 1e6 ? ' s' : unit === 6e7 ? ' min' : ' h')"
_EPOCH = "(datum.index === 0 ? 'epoch ' : '') + format(datum.value / unit, '~g')"


def param(name: str, value: Any) -> Spec:
    """A named number that marks and scales refer to."""
    return {"name": name, "value": value}


def expr(text: str) -> Spec:
    """An expression over parameters."""
    return {"expr": text}


def ticks_at(values: Any) -> Spec:
    """Ticks at these values, all of them: Vega would leave out every other one of more than it expects."""
    return {"values": values, "tickCount": 99}


def step_params(runs: Runs) -> list[Spec]:
    """The step axis as parameters: ``lo`` and ``hi``, and the ticks that follow from them."""
    low, high = runs.span
    if runs.view.x != "step":
        unit = {"name": "unit", "expr": _UNIT} if runs.view.x == "time" else param("unit", SECOND)
        every = {"name": "xticks", "expr": _LONG_TIMES if runs.log else _TIMES}
        return [param("lo", low), param("hi", high), unit, every]
    ticks = [{"name": "xticks", "expr": _TICKS}] if runs.log else []
    return [param("lo", low), param("hi", high), *ticks]


def step_x(runs: Runs, field: str = "step") -> Spec:
    """The encoding of the common step axis."""
    bounds = {"domain": [expr("lo"), expr("hi")], "nice": False, "zero": False}
    axis: Spec = {"title": None, "grid": False, "labelExpr": _STEP, "labelFlush": True, "ticks": True, "tickSize": 3}
    steps = runs.view.x == "step"
    scale: Spec = {"type": "symlog", "constant": 1 if steps else SECOND} if runs.log else {"type": "linear"}
    scale |= bounds
    if runs.log or not steps:
        axis |= ticks_at(expr("xticks"))
    else:
        axis |= {"tickCount": 5, "tickMinStep": 1}
    if not steps:
        axis |= {"labelExpr": _TIME if runs.view.x == "time" else _EPOCH, "labelOverlap": True}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


@dataclass(frozen=True)
class Axis:
    """A vertical axis that fits given values."""

    type: Literal["linear", "log"]
    low: float
    high: float
    ticks: tuple[float, ...]

    @property
    def params(self) -> list[Spec]:
        """The limits and ticks as parameters."""
        return [param("ylo", self.low), param("yhi", self.high), param("yticks", list(self.ticks))]

    def y(self, title: str | None, field: str = "v") -> Spec:
        """The encoding of a number on this axis."""
        zero = {} if self.type == "log" else {"zero": False}
        scale = {"type": self.type, "domain": [expr("ylo"), expr("yhi")], "nice": False, **zero}
        axis = {"title": title, **ticks_at(expr("yticks")), "labelExpr": SHORT, "labelLimit": 40}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    def with_ticks(self, marks: Sequence[float]) -> "Axis":
        """The same axis with ticks at these values instead of others close to them."""
        inside = [mark for mark in marks if self.low <= mark <= self.high]
        far = [tick for tick in self.ticks if all(abs(self.at(tick) - self.at(mark)) > 0.13 for mark in inside)]
        return replace(self, ticks=tuple(sorted([*far, *inside])))

    def at(self, value: Any) -> Any:
        """Where a value, or each of several, lies: from 0 to 1."""
        if self.type == "log":
            return np.log(value / self.low) / np.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def holds(self, values: Values) -> Any:
        """Which values can be drawn on it at all: on a log axis the positive ones."""
        return values > 0 if self.type == "log" else np.isfinite(values)


def fitted(
    values: Iterable[Values],
    scale: Literal["auto", "log", "linear"] = "auto",
    include: Sequence[float] = (),
    pad: float = 0.06,
) -> Axis:
    """Fit an axis; a log one needs a positive value and none below 0, ``auto`` also two decades."""
    known = np.concatenate([np.asarray(include, dtype=np.float64), *values])
    known = known[np.isfinite(known)]
    positive = known[known > 0]
    log = scale != "linear" and len(positive) > 0 and not (known < 0).any()
    if scale == "auto":
        log = log and len(positive) == len(known) and positive.max() >= 100 * positive.min()
    if log:
        return _log(float(positive.min()), float(positive.max()), pad)
    return _linear(float(known.min(initial=np.inf)), float(known.max(initial=-np.inf)), pad)


def _linear(low: float, high: float, pad: float) -> Axis:
    if not low <= high:
        low, high = 0.0, 1.0
    if low == high:
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin
    margin = pad * (high - low)
    low, high = (0.0 if 0 <= low <= margin else low - margin), high + margin
    return Axis("linear", low, high, even_ticks(low, high))


def _log(low: float, high: float, pad: float) -> Axis:
    bottom, top = (float(np.clip(np.log10(end), -290, 290)) for end in (low, high))  # far from under- and overflow
    margin = max(pad * (top - bottom), 0.04)
    low, high = 10 ** (bottom - margin), 10 ** (top + margin)
    return Axis("log", low, high, log_ticks(low, high))


def log_colour(field: str, title: str | None, least: float, most: float) -> tuple[Spec, list[Spec]]:
    """A log colour scale with its legend at the right, and the parameters it needs."""
    legend = {"title": title, "labelExpr": SHORT, "gradientLength": expr("max(height - 20, 20)")}
    scale = {"type": "log", "domain": [expr("least"), expr("most")], "clamp": True}
    colour = {"field": field, "type": "quantitative", "scale": scale}
    most = max(most, least * 1.01)
    params = [param("least", least), param("most", most), param("cticks", list(log_ticks(least, most, 4)))]
    return {**colour, "legend": {**legend, **ticks_at(expr("cticks"))}}, params


def even_ticks(low: float, high: float, count: int = 4) -> tuple[float, ...]:
    """About ``count`` round numbers between two."""
    rough = (high - low) / count
    size = 10.0 ** np.floor(np.log10(rough))
    width = size * min((1, 2, 2.5, 5, 10), key=lambda factor: abs(np.log(factor * size / rough)))
    first, last = np.ceil(low / width - 1e-9), np.floor(high / width + 1e-9)
    return tuple(float(f"{tick * width:.12g}") for tick in np.arange(first, last + 1))


def log_ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Powers of ten between two positive numbers; with 2 and 5 between them, or even ticks, where these are few."""
    bottom, top = np.log10(low), np.log10(high)
    powers = np.arange(np.ceil(bottom - 1e-9), np.floor(top + 1e-9) + 1)
    if len(powers) >= 3:
        every = int(np.ceil(len(powers) / count))
        return tuple(float(f"1e{int(power)}") for power in powers if power % every == 0)
    finer = [factor * 10.0**power for power in range(int(np.floor(bottom)), int(top) + 2) for factor in (1, 2, 5)]
    inside = tuple(float(f"{tick:.6g}") for tick in finer if low <= tick <= high)
    if len(inside) > 6:
        thirds = [factor * 10.0**power for power in range(int(np.floor(bottom)), int(top) + 2) for factor in (1, 3)]
        return tuple(float(f"{tick:.6g}") for tick in thirds if low <= tick <= high)
    return inside if len(inside) >= 2 else even_ticks(low, high, 3)
