"""Takeuchi's information criterion: gradient noise against curvature."""

from cockpit.panels._base import Instrument, Panel
from cockpit.panels.curvature_kind import curvature_kind
from cockpit.panels.lines import Chart, draw, labelled, track
from cockpit.panels.runs import Runs

INSTRUMENT = Instrument(
    "tic",
    "TIC",
    "curvature",
    "How do noise and curvature interact?",
    "Squared gradients of the samples over curvature, an estimate of the gap between training and test loss. Healthy "
    "is level or falling; a steady rise while the training loss falls speaks of overfitting: stop earlier, regularise "
    "or get more data; jumps come from parameters with almost no curvature.",
    ("TICDiag", "TICTrace"),
)


def panel(runs: Runs) -> Panel:
    """Show the diagonal and the trace form, as far as they were tracked."""
    tracks = [track(runs, "TICDiag", "diagonal"), track(runs, "TICTrace", "trace")]
    present = [one for one in tracks if any(len(series) for series in one.series)]
    facts = [*labelled(runs, present), curvature_kind(runs, "TICDiag") or curvature_kind(runs, "TICTrace")]
    return draw(INSTRUMENT, runs, Chart(present, "TIC", scale="log", facts=facts))
