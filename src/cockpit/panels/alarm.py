"""A run that broke looks broken in every panel: a word before the note, and a red part of the step axis."""

from dataclasses import replace

from cockpit.panels._base import Panel, Spec
from cockpit.panels.axes import step_x
from cockpit.panels.runs import Runs
from cockpit.panels.theme import ALARM

DATA = "broken"  # the rows


def warned(panel: Panel, runs: Runs) -> Panel:
    """The panel with what must be read first, where a run has no finite loss any more."""
    found = {place: one for place in range(len(runs)) if (one := runs.broken(place)) is not None}
    if not found or panel.empty:
        return panel
    said = [f"{one.word} since {runs.when(one.broken or 0)}" for one in found.values()]
    if runs.several:
        said = [f"{words}: {runs.labels[place]}" for place, words in zip(found, said, strict=True)]
    alarm = "; ".join(said)
    note = " · ".join(fact for fact in panel.note.split(" · ") if fact != alarm)
    panel = replace(panel, alarm=alarm, note=note)
    if runs.several or not panel.steps or panel.empty or len(found) != 1:
        return panel
    rows = [{"step": found[0].broken, "s2": max(runs.span[1], float(runs.last))}]
    return replace(panel, spec=_shaded(panel.spec, runs), datasets={**panel.datasets, DATA: rows})


def _shaded(spec: Spec, runs: Runs) -> Spec:
    """The specification with the broken part of its axis behind it."""
    x, whole = step_x(runs), {"y": {"value": 0}, "y2": {"value": "height"}}
    area: Spec = {"data": {"name": DATA}, "mark": {"type": "rect", "color": ALARM, "opacity": 0.09, "clip": True}}
    area["encoding"] = {"x": x, "x2": {"field": "s2"}, **whole}
    edge: Spec = {"data": {"name": DATA}, "mark": {"type": "rule", "color": ALARM, "opacity": 0.8, "clip": True}}
    edge["encoding"] = {"x": x, "x2": None, **whole}
    if "layer" in spec:
        return {**spec, "layer": [area, edge, *spec["layer"]]}
    inner = {key: value for key, value in spec.items() if key != "params"}
    return {"params": spec.get("params", []), "layer": [area, edge, inner]}
