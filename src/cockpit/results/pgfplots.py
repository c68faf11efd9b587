"""Learning curves and learning-rate sensitivity as LaTeX documents that draw themselves with PGFPlots."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cockpit.core.errors import CockpitError
from cockpit.results.latex import escaped
from cockpit.results.published import nearest
from cockpit.results.result import Result
from cockpit.results.summary import (
    Curve,
    Mode,
    Point,
    Setting,
    Values,
    best_setting,
    having,
    joined,
    rises,
    sensitivity,
)
from cockpit.results.tables import by_problem, unit

ROWS = ("test_loss", "train_loss", "test_accuracy", "train_accuracy")
COLOURS = ("0072B2", "D55E00", "009E73", "CC79A7", "E69F00", "56B4E9", "7F7F7F")  # Okabe and Ito, for all eyes
DASHES = ("solid", "dashed", "dotted", "dashdotted")
POINTS = 200  # of a curve, at most
SPREAD = 20  # how many times the least value the largest must be for a logarithmic axis

_PAGE = r"""\documentclass[border=4pt]{standalone} %% with \usepackage{standalone} it can also be \input into a paper
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{pgfplots}
\usepgfplotslibrary{groupplots,fillbetween}
\usetikzlibrary{calc}
\pgfplotsset{compat=1.16}
%(colours)s\begin{document}
\begin{tikzpicture}
\begin{groupplot}[
  group style={group size=%(columns)d by %(rows)d, horizontal sep=1.6cm, vertical sep=1.5cm},
  width=6cm, height=4.5cm, grid=major, grid style={black!10}, axis line style={black!40},
  tick label style={font=\scriptsize}, label style={font=\footnotesize}, title style={font=\small},
]
%(plots)s\end{groupplot}
\node[anchor=north] at ($(group c1r%(rows)d.south)!0.5!(group c%(columns)dr%(rows)d.south)+(0,-1cm)$) {%(legend)s};
\end{tikzpicture}
\end{document}
"""


def learning_curves(
    results: Iterable[Result],
    problems: Sequence[str] | None = None,
    mode: Mode = "shared",
    baselines: Iterable[Result] = (),
    published: bool = False,
) -> str:
    """Mean and one standard deviation over seeds of the best setting of each optimizer; a column for each problem.

    Baselines lie behind in grey; published figures are diamonds, at the epoch they belong to.
    """
    results, baselines = list(results), list(baselines)
    columns = {
        problem: [*_settings(baselines, problem, "shared", behind=True), *_settings(results, problem, mode)]
        for problem in by_problem(results, problems)
    }
    styles = _styles(line for lines in columns.values() for line in lines)
    rows = [metric for metric in ROWS if any(_has(one, metric) for lines in columns.values() for one in lines)]
    plots = [_cell(problem, lines, metric, styles, published) for metric in rows for problem, lines in columns.items()]
    return _document(styles, len(columns), len(rows), plots)


def rate_sensitivity(
    results: Iterable[Result],
    problems: Sequence[str] | None = None,
    name: str = "lr",
    baselines: Iterable[Result] = (),
) -> str:
    """How runs end against a hyperparameter, on a logarithmic axis: dots are seeds, lines go through their means.

    Crosses at the edge are settings with a seed that diverged or made a loss worse than it was.
    """
    results, baselines = list(results), list(baselines)
    columns = {
        problem: [
            *_settings(baselines, problem, "shared", name, behind=True),
            *_settings(results, problem, "shared", name),
        ]
        for problem in by_problem(results, problems)
    }
    styles = _styles(line for lines in columns.values() for line in lines)
    plots = []
    for problem, lines in columns.items():
        found = {
            line.name: sensitivity(baselines if line.behind else results, problem, line.setting.optimizer, name)
            for line in lines
        }
        plots.append(_sensitivity(problem, found, styles, name))
    return _document(styles, len(columns), 1, plots)


def _sensitivity(problem: str, found: Mapping[str, Sequence[Point]], styles: Mapping[str, str], name: str) -> str:
    """One plot; a logarithmic vertical axis where values lie far apart."""
    kept = {line: [one for one in points if one.value > 0 and len(one.ends)] for line, points in found.items()}
    some = next((one for points in kept.values() for one in points), None)
    metric = some.setting.metric if some else "test_loss"
    ends = np.concatenate([one.ends for points in kept.values() for one in points] or [np.array([])])
    good = _factor(metric) * ends[np.isfinite(ends)]
    low, high, scale = _axis(good)
    edge = low if rises(metric) else high
    options = f"title={{{escaped(problem)}}}, xmode=log{scale}, ymin={_number(low)}, ymax={_number(high)}"
    parts = [f"\\nextgroupplot[{options}, xlabel={{{escaped(name)}}}, ylabel={{{escaped(unit(metric))}}}]\n"]
    for line, points in kept.items():
        style, colour = styles[line], styles[line].partition(",")[0]
        if joined(points, name):
            means = [(one.value, _factor(metric) * one.mean) for one in points]
            parts.append(f"\\addplot[{style}, unbounded coords=jump] coordinates {{{_broken(means)}}};\n")
        seeds = [(one.value, _factor(metric) * end) for one in points for end in one.ends]
        parts.append(f"\\addplot[{colour}, only marks, mark size=0.8pt] coordinates {{{_coordinates(seeds)}}};\n")
        failed = [(one.value, edge) for one in points if not math.isfinite(one.mean)]
        if failed:
            parts.append(f"\\addplot[{colour}, only marks, mark=x, thick] coordinates {{{_coordinates(failed)}}};\n")
    return "".join(parts)


def _axis(values: Values) -> tuple[float, float, str]:
    """Limits that hold all values, and the option of a logarithmic scale if there is to be one."""
    if not len(values):
        return 0.0, 1.0, ""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > SPREAD * low:
        margin = (high / low) ** 0.05
        return low / margin, high * margin, ", ymode=log"
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin, ""


@dataclass(frozen=True)
class _Line:
    """A setting that is drawn."""

    setting: Setting
    behind: bool

    @property
    def name(self) -> str:
        """What the legend calls it."""
        return f"{self.setting.optimizer}, {self.setting.first.source}" if self.behind else self.setting.optimizer


def _settings(
    results: Sequence[Result], problem: str, mode: Mode, name: str = "lr", behind: bool = False
) -> list[_Line]:
    held = having(results, problem, name)
    return [_Line(best_setting(results, problem, optimizer, mode), behind) for optimizer in held]


def _styles(lines: Iterable[_Line]) -> dict[str, str]:
    """The look of each name in the legend: a colour, and a dash when colours begin again; what lies behind is grey."""
    known = {line.name: line.behind for line in lines}
    front = sorted((name for name, behind in known.items() if not behind), key=str.lower)
    back = sorted((name for name, behind in known.items() if behind), key=str.lower)
    styles = {
        name: f"cockpit{place % len(COLOURS)}, {DASHES[place // len(COLOURS) % 4]}" for place, name in enumerate(front)
    }
    return styles | {name: f"gray, {DASHES[1 + place % 3]}" for place, name in enumerate(back)}


def _cell(problem: str, lines: Sequence[_Line], metric: str, styles: Mapping[str, str], published: bool) -> str:
    """One plot of the grid; the first of a column has its title, the last the label of its axis."""
    held = [one for one in ROWS if any(_has(line, one) for line in lines)]
    if metric not in held:
        return "\\nextgroupplot[group/empty plot]\n"
    curves = {line.name: (line, line.setting.curve(metric)) for line in lines if _has(line, metric)}
    title = f"title={{{escaped(problem)}}}, " if metric == held[0] else ""
    label = "xlabel={epoch}, " if metric == held[-1] else ""
    limits = _limits([curve for _, curve in curves.values()], metric)
    parts = [f"\\nextgroupplot[{title}{label}ylabel={{{escaped(unit(metric))}}}{limits}]\n"]
    last = max(line.setting.first.epochs for line, _ in curves.values())
    for place, (name, (line, curve)) in enumerate(curves.items()):
        parts.append(_curve(curve, metric, styles[name], place, band=not line.behind))
        first = line.setting.first
        known = nearest(problem, line.setting.optimizer, metric, first.schedule, first.variant)
        if published and known and not line.behind and known.epochs <= last:
            mark = f"({known.epochs},{_number(_factor(metric) * known.mean)})"
            parts.append(f"\\addplot[{styles[name]}, only marks, mark=diamond, thick] coordinates {{{mark}}};\n")
    return "".join(parts)


def _has(line: _Line, metric: str) -> bool:
    return any(one.curves.get(metric) for one in line.setting.results)


def _factor(metric: str) -> float:
    return 100.0 if rises(metric) else 1.0


def _document(styles: Mapping[str, str], columns: int, rows: int, plots: Sequence[str]) -> str:
    if not styles:
        raise CockpitError("there are no results to draw; give runs of at least one problem")
    colours = [f"\\definecolor{{cockpit{place}}}{{HTML}}{{{colour}}}\n" for place, colour in enumerate(COLOURS)]
    legend = r" \quad ".join(
        f"\\tikz[baseline=-0.6ex]\\draw[{style}, thick] (0,0) -- (1.8em,0); {escaped(name)}"
        for name, style in styles.items()
    )
    words = {"colours": "".join(colours), "plots": "".join(plots), "legend": legend}
    return _PAGE % {**words, "columns": columns, "rows": rows}


def _curve(curve: Curve, metric: str, style: str, place: int, band: bool) -> str:
    """A line, and behind it the band between two lines that are not drawn."""
    epochs = _thinned(np.flatnonzero(np.isfinite(curve.mean)))
    mean, std = _factor(metric) * curve.mean[epochs], _factor(metric) * curve.std[epochs]
    parts = []
    if band and (std > 0).any():
        for edge, values in (("upper", mean + std), ("lower", mean - std)):
            path = f"name path=p{place}{edge}, draw=none, forget plot"
            parts.append(f"\\addplot[{path}] coordinates {{{_coordinates(zip(epochs, values, strict=True))}}};\n")
        colour = style.partition(",")[0]
        parts.append(f"\\addplot[{colour}, opacity=0.2] fill between[of=p{place}upper and p{place}lower];\n")
    parts.append(f"\\addplot[{style}, thick] coordinates {{{_coordinates(zip(epochs, mean, strict=True))}}};\n")
    return "".join(parts)


def _thinned(epochs: NDArray[np.intp]) -> NDArray[np.intp]:
    """Evenly fewer epochs, the last one kept: TeX's memory is small."""
    every = -(-len(epochs) // POINTS) or 1
    return np.unique(np.append(epochs[::every], epochs[-1:]))


def _limits(curves: Sequence[Curve], metric: str) -> str:
    """Limits that show the end of training well; the first epochs may lie outside."""
    seen = [_factor(metric) * edge for curve in curves for edge in (curve.mean - curve.std, curve.mean + curve.std)]
    late: list[Values] = [values[max(1, len(values) // 20) :] for values in seen]
    known = np.concatenate([values[np.isfinite(values)] for values in late]) if late else np.array([])
    if not len(known) or known.min() == known.max():
        return ""
    margin = 0.05 * float(known.max() - known.min())
    return f", ymin={_number(known.min() - margin)}, ymax={_number(known.max() + margin)}"


def _coordinates(pairs: Iterable[tuple[float, float]]) -> str:
    found = [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    return " ".join(f"({_number(x)},{_number(y)})" for x, y in found)


def _broken(pairs: Iterable[tuple[float, float]]) -> str:
    """Coordinates of a line that stops where a value is missing and goes on after it."""
    return " ".join(f"({_number(x)},{_number(y)})" for x, y in pairs)


def _number(value: float) -> str:
    return f"{float(value):.6g}"
