"""Benchmark results on paper and for a page: from runs to panels to a picture."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cockpit.core.errors import CockpitError, unknown
from cockpit.core.writing import refusing, whole
from cockpit.panels import Panel, bench
from cockpit.panels._base import Row, Spec, slug
from cockpit.panels.bench import Measure, palette
from cockpit.plots import figure as paper
from cockpit.plots.layout import RESOLVE, lines
from cockpit.results import pgfplots
from cockpit.results.published import Published, nearest
from cockpit.results.result import Result
from cockpit.results.summary import Mode, Setting, best_setting, having, joined, rises, sensitivity, settings, speed
from cockpit.results.tables import by_problem, unit

KINDS = ("curves", "sensitivity", "speed", "final")
METRICS = ("test_loss", "train_loss", "test_accuracy", "train_accuracy")
WIDE, HIGH = 300, 170  # of a plot among others
SINGLE = (560, 280)
LINE = 24  # height of an optimizer in a strip
COLUMNS = 3
GAP = 26


@dataclass(frozen=True)
class Scene:
    """What is drawn, and how settings are chosen."""

    results: list[Result]
    baselines: list[Result] = field(default_factory=list)
    mode: Mode = "shared"
    published: bool = False
    hyperparameter: str = "lr"  # of a sensitivity

    def best(self, problem: str) -> list[Setting]:
        """The best setting of each optimizer on a problem."""
        held = by_problem(self.results)[problem]
        return [best_setting(self.results, problem, optimizer, self.mode) for optimizer in held]

    def behind(self, problem: str) -> list[Setting]:
        """The best baseline of each optimizer on a problem."""
        held = by_problem(self.baselines).get(problem, ())
        return [best_setting(self.baselines, problem, optimizer) for optimizer in held]

    def measure(self, metric: str) -> Measure:
        """How a metric is shown; an optimizer has one colour in all panels."""
        names = sorted({one.optimizer for one in self.results}, key=str.lower)
        return Measure(unit(metric), rises(metric), colours=palette(names))


def figure(
    results: Iterable[Result],
    kind: str,
    out: Path | str,
    baselines: Iterable[Result] = (),
    *,
    problems: Sequence[str] | None = None,
    mode: Mode = "shared",
    published: bool = False,
    hyperparameter: str = "lr",
    title: str = "",
    theme: str = "light",
    scale: float = 2.0,
) -> Path:
    """Draw results to a file.

    Args:
        results: Runs.
        kind: ``"curves"``, ``"sensitivity"``, ``"speed"`` or ``"final"``.
        out: The file: .png, .svg, .pdf, or .tex (PGFPlots, for curves and sensitivity).
        baselines: Runs to compare with, drawn in grey behind.
        problems: Which, in this order; None: all.
        mode: How the best setting of an optimizer is found.
        published: Whether published figures are marked.
        hyperparameter: That of a sensitivity.
        title: Heading.
        theme: ``"light"``, ``"dark"`` or ``"print"``.
        scale: Pixels of a PNG for each point.
    """
    out, results = Path(out), list(results)
    format = _format(out, kind)
    if not results:
        raise CockpitError("there are no results to draw; train something first, or give another folder")
    scene = Scene(results, list(baselines), mode, published, hyperparameter)
    if format == "tex":
        picture = _tex(scene, kind, problems).encode()
    else:
        picture = _picture(scene, kind, problems, title, theme, format, scale)
    return _written(out, picture)


def panels(
    results: Iterable[Result], baselines: Iterable[Result] = (), problem: str | None = None, mode: Mode = "shared"
) -> list[Panel]:
    """All panels of a problem; None: of all problems, kind by kind."""
    scene = Scene(list(results), list(baselines), mode, published=True)
    held = by_problem(scene.results, None if problem is None else [problem])
    return [panel for kind in KINDS for one in held for panel in _PANELS[kind](scene, one)]


def screen(results: Iterable[Result], baselines: Iterable[Result] = (), mode: Mode = "shared") -> list[dict[str, Any]]:
    """The same for a page: ``{"id", "title", "note", "spec"}``; a specification holds its data, but not the title."""
    found = panels(results, baselines, mode=mode)
    return [{"id": one.id, "title": one.title, "note": one.note, "spec": _alone(one)} for one in found]


def _written(out: Path, picture: bytes) -> Path:
    with refusing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole(out) as part:
            part.write_bytes(picture)
    return out


def _format(out: Path, kind: str) -> str:
    """What the ending of a file asks for."""
    if kind not in KINDS:
        raise unknown("kind of figure", kind, KINDS)
    known = {f".{name}": name for name in (*paper.WRITERS, "tex")}
    if out.suffix.lower() not in known:
        raise unknown("ending of a figure", out.suffix, known)
    return known[out.suffix.lower()]


def _picture(
    scene: Scene, kind: str, problems: Sequence[str] | None, title: str, theme: str, format: str, scale: float
) -> bytes:
    columns = [_PANELS[kind](scene, problem) for problem in by_problem(scene.results, problems)]
    return paper.render(_page(columns, title), format, theme, scale)


def _tex(scene: Scene, kind: str, problems: Sequence[str] | None) -> str:
    if kind == "curves":
        return pgfplots.learning_curves(scene.results, problems, scene.mode, scene.baselines, scene.published)
    if kind == "sensitivity":
        return pgfplots.rate_sensitivity(scene.results, problems, scene.hyperparameter, scene.baselines)
    raise CockpitError(f"{kind} cannot be written as .tex, which curves and sensitivity can; give a .pdf")


def _curves(scene: Scene, problem: str) -> list[Panel]:
    """The panels of one problem, one for each metric that is there."""
    front, back = scene.best(problem), scene.behind(problem)
    drawn = []
    for metric in METRICS:
        held = [_curve(scene, one, metric, behind=True) for one in back] + [_curve(scene, one, metric) for one in front]
        held = [one for one in held if len(one.mean)]
        if any(not one.reference for one in held):
            title = f"{problem} · {metric.replace('_', ' ')}"
            drawn.append(bench.curves(title, held, scene.measure(metric), slug(f"curves-{problem}-{metric}")))
    return drawn


def _curve(scene: Scene, setting: Setting, metric: str, behind: bool = False) -> bench.Curve:
    found = setting.curve(metric)
    unit = _factor(metric)
    ends = [one.diverged for one in setting.results if one.diverged is not None]
    known = _known(scene, setting, metric)
    return bench.Curve(
        _behind(setting) if behind else setting.optimizer,
        unit * found.mean,
        unit * (found.mean - found.std),
        unit * (found.mean + found.std),
        len(setting.results),
        [] if behind else ends,
        (known.epochs, unit * known.mean) if known and not behind else None,
        behind,
    )


def _sensitivity(scene: Scene, problem: str) -> list[Panel]:
    name = scene.hyperparameter
    grids = [_grid(scene.baselines, problem, one, name, True) for one in having(scene.baselines, problem, name)]
    grids += [_grid(scene.results, problem, one, name) for one in having(scene.results, problem, name)]
    grids = [grid for grid in grids if grid.values]
    some = next(one for one in settings(scene.results) if one.problem == problem)
    measure = scene.measure(some.metric)
    return [bench.sensitivity(f"{problem} · sensitivity", grids, measure, name, slug(f"sensitivity-{problem}"))]


def _grid(results: Sequence[Result], problem: str, optimizer: str, name: str, behind: bool = False) -> bench.Grid:
    points = [one for one in sensitivity(results, problem, optimizer, name) if one.value > 0 and one.setting.finished]
    ends = [_factor(one.setting.metric) * one.ends for one in points]
    label = _behind(points[0].setting) if behind and points else optimizer
    return bench.Grid(label, [one.value for one in points], ends, behind, joined(points, name))


def _speed(scene: Scene, problem: str) -> list[Panel]:
    found, measure = _ends(scene, problem)
    return [bench.speed(f"{problem} · speed", found, measure, slug(f"speed-{problem}"))]


def _final(scene: Scene, problem: str) -> list[Panel]:
    found, measure = _ends(scene, problem)
    return [bench.final(f"{problem} · final", found, measure, slug(f"final-{problem}"))]


def _ends(scene: Scene, problem: str) -> tuple[list[bench.End], Measure]:
    front = scene.best(problem)
    found = [_end(scene, one) for one in front]
    found += [_end(scene, one, behind=True) for one in scene.behind(problem) if one.metric == front[0].metric]
    known = _known(scene, front[0], front[0].metric)
    measure = scene.measure(front[0].metric)
    said = ["published"]
    if known and any(one.first.epochs != known.epochs for one in front):
        said.append(f"after {known.epochs} epochs")
    if any(one.caveat for setting in front if (one := _known(scene, setting, setting.metric))):
        said.append("in part on matrices that differ from setting to setting")
    return found, replace(measure, published=", ".join(said))


def _end(scene: Scene, setting: Setting, behind: bool = False) -> bench.End:
    ends = _factor(setting.metric) * setting.finals()
    pace = (speed(setting), setting.first.epochs)
    if behind:
        return bench.End(_behind(setting), ends, *pace, reference=True)
    known = _known(scene, setting, setting.metric)
    said = (_factor(setting.metric) * known.mean, known.speed) if known else (None, None)
    return bench.End(setting.optimizer, ends, *pace, *said)


_PANELS: dict[str, Callable[[Scene, str], list[Panel]]] = {
    **{"curves": _curves, "sensitivity": _sensitivity, "speed": _speed, "final": _final}
}


def _known(scene: Scene, setting: Setting, metric: str) -> Published | None:
    first = setting.first
    return (
        nearest(setting.problem, setting.optimizer, metric, first.schedule, first.variant) if scene.published else None
    )


def _factor(metric: str) -> float:
    return 100.0 if rises(metric) else 1.0


def _behind(setting: Setting) -> str:
    return f"{setting.optimizer}, {setting.first.source}"


def _page(columns: Sequence[Sequence[Panel]], title: str) -> Spec:
    """Lay panels out: a column for each problem where it has several, otherwise a grid."""
    held = [panel for column in columns for panel in column]
    datasets: dict[str, list[Row]] = {}
    if max(map(len, columns)) > 1 and len(columns) > 1:
        rows = range(max(map(len, columns)))
        cells = [column[row] if row < len(column) else None for row in rows for column in columns]
        across = len(columns)
    else:
        cells, across = list(held), 2 if len(held) in (2, 4) else COLUMNS
    size = SINGLE if len(held) == 1 else (WIDE, HIGH)
    views = []
    for begin in range(0, len(cells), across):
        row = cells[begin : begin + across]
        most = max(len(lines(panel.note, size[0])) for panel in row if panel is not None)
        views += [_blank(*size) if panel is None else _view(panel, *size, datasets, most) for panel in row]
    spec: Spec = {"concat": views, "columns": across, "spacing": GAP, "resolve": RESOLVE, "padding": 14}
    heading = {"title": {"text": title, "fontSize": 15, "anchor": "start", "offset": 10}} if title else {}
    return {**spec, **heading, "datasets": datasets}


def _view(panel: Panel, width: int, height: int, datasets: dict[str, list[Row]], header: int = 0) -> Spec:
    """A panel of fixed size, whose data stand under a name of its own; its title has so many lines below it."""
    note = lines(panel.note, width)
    heading = {"text": panel.title, "subtitle": note + [" "] * (header - len(note))}
    if panel.empty is not None:
        words = {"type": "text", "text": lines(panel.empty, width), "fontSize": 10, "align": "center"}
        return {**_blank(width, height), "data": {"values": [{}]}, "mark": words, "title": heading}
    own = f"{panel.id}/"
    datasets |= {own + name: rows for name, rows in panel.datasets.items()}
    layers = [{**layer, "data": {"name": own + layer["data"]["name"]}} for layer in panel.spec["layer"]]
    return {**panel.spec, "layer": layers, "width": width, "height": _height(panel, height), "title": heading}


def _height(panel: Panel, height: int) -> int:
    """A strip is as high as it has lines."""
    strip = panel.spec["encoding"]["y"]
    return LINE * len(strip["scale"]["domain"]) if strip["type"] == "nominal" else height


def _blank(width: int, height: int) -> Spec:
    return {"data": {"values": []}, "mark": "point", "encoding": {}, "width": width, "height": height}


def _alone(panel: Panel) -> Spec:
    """A panel as a specification that a page embeds as it is; as wide as its place."""
    datasets: dict[str, list[Row]] = {}
    view = _view(panel, WIDE, HIGH, datasets)
    del view["title"]
    fit = {"type": "fit-x", "contains": "padding"}
    return {**view, "width": "container", "autosize": fit, "datasets": datasets}
