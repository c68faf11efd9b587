"""Which panels make the cockpit, in which group and order."""

from collections.abc import Callable, Mapping, Sequence

from cockpit.core.errors import unknown
from cockpit.core.kinds import Kind
from cockpit.core.source import Source
from cockpit.panels import (
    alpha,
    by_kind,
    by_layer,
    cost,
    distance,
    eigenvalue,
    grad_norm,
    hist1d,
    hist2d,
    hist_by_layer,
    learning_rate,
    loss,
    metrics,
    noise,
    tests,
    tic,
    trace,
)
from cockpit.panels._base import Panel, View
from cockpit.panels.alarm import warned
from cockpit.panels.covered import covered
from cockpit.panels.names import OURS
from cockpit.panels.runs import Runs

Draw = Callable[[Runs], Panel]

DECK: Mapping[str, Draw] = {  # three columns of four, and the row that everybody knows
    "alpha": alpha.distribution,
    "alpha-time": alpha.over_time,
    "distance": distance.panel,
    "grad-norm": grad_norm.panel,
    "tests": tests.gauge,
    "tests-time": tests.history,
    "hist1d": hist1d.panel,
    "hist2d": hist2d.panel,
    "eigenvalue": eigenvalue.panel,
    "trace": trace.panel,
    "tic": tic.panel,
    "trace-layers": trace.by_layer,
    "learning-rate": learning_rate.panel,
    "loss": loss.panel,
    "metrics": metrics.panel,
    "cost": cost.panel,
}
MORE: Mapping[str, Draw] = {
    "hist1d-time": hist1d.over_time,
    "cabs": noise.cabs,
    "early-stopping": noise.early_stopping,
    "gsnr": noise.gsnr,
}


def deck(sources: Sequence[Source], view: View | None = None) -> list[Panel]:
    """Return all panels: the flight deck, then what else is known; always the same first ones in the same order."""
    runs = Runs(sources, view or View())
    fixed = [draw(runs) for draw in (*DECK.values(), *MORE.values())]
    return [_marked(one, runs) for one in fixed + [by_kind.panel(runs, name) for name in _others(runs)]]


def first_page(runs: Runs) -> list[Panel]:
    """The flight deck alone."""
    return [_marked(draw(runs), runs) for draw in DECK.values()]


def panel(sources: Sequence[Source], id: str, view: View | None = None) -> Panel:
    """Return one panel by its id."""
    runs = Runs(sources, view or View())
    known = {**DECK, **MORE}
    if id in known:
        return _marked(known[id](runs), runs)
    others = {by_kind.identity(name): name for name in runs.names()}
    if id in others:
        return _marked(by_kind.panel(runs, others[id]), runs)
    for name in runs.names():
        for what, draw in {**by_layer.VIEWS, **hist_by_layer.VIEWS}.items():
            if id == by_layer.identity(what, name):
                first = Runs(sources[:1], view or View())
                return _marked(draw(first, name), first)
    raise unknown("panel", id, [*known, *others])


def layers(source: Source, view: View | None = None, name: str = "GradNorm") -> list[Panel]:
    """Return the panels that show a quantity layer by layer."""
    runs = Runs([source], view or View())
    kind = source.kinds.get(name)
    if kind is Kind.PER_PARAMETER:
        return [_marked(one, runs) for one in by_layer.panels(runs, name)]
    if kind is Kind.HISTOGRAM:
        return [_marked(one, runs) for one in hist_by_layer.panels(runs, name)]
    if kind is None:
        raise unknown("quantity", name, source.kinds)
    return []


def _marked(panel: Panel, runs: Runs) -> Panel:
    """The panel with what must be known before it is believed."""
    return warned(covered(panel, runs), runs)


def _others(runs: Runs) -> list[str]:
    """What is recorded and has no panel of its own."""
    shown = {*OURS, *metrics.shown(runs), *metrics.losses(runs)}
    logged = [name for name in runs.names() if name not in shown and not learning_rate.PATTERN.fullmatch(name)]
    extra = [name for name in ("Parameters", "batch_size") if runs.holding(name)]
    return logged + extra
