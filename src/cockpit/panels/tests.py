"""The three gradient tests: noise of a batch around its mean gradient, as a gauge and over time."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from cockpit.panels._base import Instrument, Panel, Row, Spec
from cockpit.panels.axes import expr, param, ticks_at
from cockpit.panels.lines import SERIES, Chart, draw, track
from cockpit.panels.recent import ENOUGH, recent
from cockpit.panels.rows import number, table
from cockpit.panels.runs import Runs
from cockpit.panels.theme import ACCENTS, QUIET
from cockpit.panels.undefined import nothing_to_see, undefined

TESTS = {"NormTest": "norm", "InnerTest": "inner", "OrthoTest": "ortho"}
CRITICAL = {"NormTest": 0.9, "InnerTest": 0.9, "OrthoTest": 5.84}  # Byrd et al. 2012, Bollapragada et al. 2017
GAUGE = Instrument(
    "tests",
    "Gradient tests",
    "gradients",
    "How noisy is the batch?",
    "Scatter of the batch around its mean gradient (cross), in units of that gradient's length: disc (norm test), "
    "horizontal band (inner product test, along the gradient) and vertical band (orthogonality test). Healthy is "
    "inside the dashed critical values 0.9, 0.9 and 5.84; outside, noise rules the step: enlarge the batch or lower "
    "the learning rate.",
    tuple(TESTS),
    steps=False,
)
HISTORY = Instrument(
    "tests-time",
    "Gradient tests over time",
    "gradients",
    "Does the batch get noisier?",
    "The three tests over training, with the critical values of the literature as dashed lines. Healthy is below "
    "them, rising slowly as the gradient shrinks; for long above: enlarge the batch to the size the note gives; far "
    "below from the start: a smaller batch would do.",
    (*TESTS, "batch_size"),
)
_FRAME = (6.8, 1.3)  # half width and half height of the gauge, at least: just beyond the critical values


@dataclass(frozen=True)
class Radii:
    """The three tests of one run at one step."""

    run: str
    norm: float | None
    inner: float | None
    ortho: float | None
    at: str  # which step this is


def _told(radii: Radii, several: bool) -> str:
    """All three with their critical values, for whoever points at the gauge."""
    critical = {test: CRITICAL[name] for name, test in TESTS.items()}
    values = {"norm": radii.norm, "inner": radii.inner, "ortho": radii.ortho}
    tests = [f"{test}: {number(v)} (critical {critical[test]})" for test, v in values.items() if v is not None]
    return "\n".join([f"{radii.run}, {radii.at}" if several else radii.at, *tests])


def suggested_batch(runs: Runs, place: int) -> dict[str, int]:
    """The batch size at which each test would just pass: the square of a test falls as 1 / batch size."""
    sizes = runs.scalar(place, "batch_size").defined()
    if not len(sizes):
        return {}
    found = {}
    for name, critical in CRITICAL.items():
        late = recent(runs.seen(runs.scalar(place, name).defined()))
        if len(late) >= ENOUGH and not runs.since(place, name):
            found[name] = max(ceil(float(sizes.values[-1]) * (float(np.median(late.values)) / critical) ** 2), 2)
    return found


def gauge(runs: Runs) -> Panel:
    """Show ball and bands around the mean gradient at the last or the asked step."""
    found = [radii for place in range(len(runs)) if (radii := _radii(runs, place)) is not None]
    if not found:
        return GAUGE.nothing(nothing_to_see(runs, GAUGE.names))
    width = max([_FRAME[0], *(1.15 * value for r in found for value in (r.norm, r.ortho) if value)])
    height = max([_FRAME[1], *(1.15 * value for r in found for value in (r.norm, r.inner) if value)])
    ball = [row for r in found if r.norm for row in _disc(r.norm, {"k": "norm", "run": r.run})]
    bands: list[Row] = []
    for r in found:
        bands += [_box(width, r.inner, r.run, "inner")] if r.inner is not None else []
        bands += [_box(r.ortho, height, r.run, "ortho")] if r.ortho is not None else []
    whole = {"x": -width, "x2": width, "y": -height, "y2": height}
    pointed = [{**whole, "tip": "\n".join(_told(r, runs.several) for r in found)}]
    critical = [
        {"x": -width, "x2": width, "y": sign * CRITICAL["InnerTest"], "y2": sign * CRITICAL["InnerTest"]}
        for sign in (-1, 1)
    ]
    critical += [
        {"x": sign * CRITICAL["OrthoTest"], "x2": sign * CRITICAL["OrthoTest"], "y": -height, "y2": height}
        for sign in (-1, 1)
    ]
    ring = _ring(CRITICAL["NormTest"])
    datasets = {
        "ball": ball,
        "bands": bands,
        "critical": critical,
        "ring": ring,
        "mean": [{"x": 0, "y": 0}],
        "pointed": pointed,
    }
    return GAUGE.panel(_spec(runs, found, width, height), datasets, _note(runs))


def _radii(runs: Runs, place: int) -> Radii | None:
    values: dict[str, float | None] = dict.fromkeys(TESTS.values())
    steps = []
    for name, test in TESTS.items():
        series = runs.scalar(place, name).defined()
        if len(series):
            values[test] = float(series.values[runs.latest(series)])
            steps.append(int(series.steps[runs.latest(series)]))
    at = runs.when(max(steps, default=0))
    return Radii(runs.labels[place], values["norm"], values["inner"], values["ortho"], at) if steps else None


def _disc(radius: float, same: Row) -> list[Row]:
    """A disc as its upper and lower boundary; dense near the rim and near 0, where a symlog axis stretches."""
    angle = np.linspace(0, np.pi, 49)
    x = np.unique(np.concatenate([radius * np.cos(angle), np.linspace(-0.2, 0.2, 9) * radius]))
    y = np.sqrt(np.maximum(radius**2 - x**2, 0))
    return table(x=x, y=-y, y2=y, **same)


def _ring(radius: float) -> list[Row]:
    angle = np.linspace(0, 2 * np.pi, 97)
    return table(x=radius * np.cos(angle), y=radius * np.sin(angle), i=np.arange(97))


def _box(width: float, height: float, run: str, label: str) -> Row:
    return {"x": -width, "x2": width, "y": -height, "y2": height, "run": run, "k": label}


def _note(runs: Runs) -> str:
    facts = []
    sizes = runs.scalar(0, "batch_size").defined()
    wanted = suggested_batch(runs, 0)
    if wanted and len(sizes):
        norm, rest = wanted.get("NormTest"), [wanted[name] for name in ("InnerTest", "OrthoTest") if name in wanted]
        asks = [f"norm test needs {norm}"] if norm else []
        asks += [f"inner and ortho {'' if norm else 'need '}{max(rest)}"] if rest else []
        whose = f"{runs.labels[0]}: " if runs.several else ""
        facts += [f"{whose}batch {number(float(sizes.values[-1]))}", *asks]
    facts = [*_shown(runs), *facts]
    facts += [told for name in TESTS if (told := undefined(runs, name))]
    return " · ".join(facts)


def _shown(runs: Runs) -> list[str]:
    """Which step the gauge shows, where that is not the last one."""
    found = [runs.scalar(0, name).defined() for name in TESTS]
    last = max((int(one.steps[runs.latest(one)]) for one in found if len(one)), default=None)
    newest = max((int(runs.scalar(0, name).steps[-1]) for name in TESTS if len(runs.scalar(0, name))), default=None)
    return [] if runs.several or last is None or last == newest else [f"shown: {runs.when(last)}"]


def _axis(title: str, half: str, ticks: list[float]) -> Spec:
    scale = {"type": "symlog", "constant": 0.5, "domain": [expr(f"-{half}"), expr(half)], "nice": False}
    axis = {"title": title, **ticks_at(ticks), "grid": False, "labelExpr": "format(datum.value, '.3~g')"}
    return {"field": "x", "type": "quantitative", "scale": scale, "axis": {**axis, "labelOverlap": True}}


def _spec(runs: Runs, found: list[Radii], width: float, height: float) -> Spec:
    x = _axis("across the mean gradient", "half_x", [-5.84, -0.9, 0, 0.9, 5.84])
    y = {**_axis("along", "half_y", [-0.9, 0, 0.9]), "field": "y"}
    label = "datum.label === 'norm' ? label_norm : datum.label === 'inner' ? label_inner : label_ortho"
    legend = {"orient": "top", "title": None, "symbolType": "square", "labelExpr": label, "symbolOpacity": 1}
    tones = {"domain": list(TESTS.values()), "range": [ACCENTS["gradients"], *SERIES[:2]]}
    if runs.several:
        runs_scale = {"domain": runs.labels, "range": list(runs.colours)}
        paint: Spec = {"field": "run", "type": "nominal", "scale": runs_scale, "legend": None}
    else:
        paint = {"field": "k", "type": "nominal", "scale": tones, "legend": legend}
    fill = 0.0 if runs.several else 0.22
    outline = {"fillOpacity": fill, "strokeWidth": 1.5, "strokeOpacity": 0.9, "clip": True}
    stroke = {"stroke": paint, "fill": paint}
    quiet = {"color": QUIET, "strokeDash": [3, 3], "strokeWidth": 1, "clip": True}
    layers: list[Spec] = [
        {
            "data": {"name": "bands"},
            "mark": {"type": "rect", **outline},
            "encoding": {"x2": {"field": "x2"}, "y2": {"field": "y2"}, **stroke},
        },
        {
            "data": {"name": "ball"},
            "mark": {"type": "area", **outline, "line": False},
            "encoding": {"y2": {"field": "y2"}, **stroke, "detail": [{"field": "run"}]},
        },
        {
            "data": {"name": "critical"},
            "mark": {"type": "rule", **quiet},
            "encoding": {"x2": {"field": "x2"}, "y2": {"field": "y2"}},
        },
        {"data": {"name": "ring"}, "mark": {"type": "line", **quiet}, "encoding": {"order": {"field": "i"}}},
        {"data": {"name": "mean"}, "mark": {"type": "point", "shape": "cross", "size": 90, "opacity": 1}},
        {
            "data": {"name": "pointed"},
            "mark": {"type": "rect", "opacity": 0},
            "encoding": {"x2": {"field": "x2"}, "y2": {"field": "y2"}, "tooltip": {"field": "tip"}},
        },
    ]
    params = [param("half_x", width), param("half_y", height), *_labels(found)]
    return {"params": params, "encoding": {"x": x, "y": y}, "layer": layers}


def _short(value: float) -> str:
    """Two digits, for a legend that is often narrow."""
    return f"{value:.2g}" if 1e-3 <= value < 100 else number(value)


def _labels(found: list[Radii]) -> list[Spec]:
    """Legend entries with the numbers they stand for, when there is one run."""
    first = found[0]
    values = {"norm": first.norm, "inner": first.inner, "ortho": first.ortho}
    return [
        param(f"label_{key}", f"{key} {_short(value)}" if value is not None and len(found) == 1 else key)
        for key, value in values.items()
    ]


def history(runs: Runs) -> Panel:
    """Show the three tests over steps with their critical values."""
    tracks = [track(runs, name, label) for name, label in TESTS.items() if runs.holding(name)]
    seen = [series.defined() for one in tracks for series in one.series]
    above = [float(series.values.max()) for series in seen if len(series)]
    include = [0.9] + ([5.84] if above and max(above) > 2 else [])
    facts = ["critical: norm, inner 0.9", "ortho 5.84"]
    return draw(HISTORY, runs, Chart(tracks, "test value", (0.9, 5.84), "log", include, facts))
