"""The norm of the mini-batch gradient."""

from cockpit.panels._base import Instrument, Panel
from cockpit.panels.lines import Chart, draw, now, track
from cockpit.panels.runs import Runs

INSTRUMENT = Instrument(
    "grad-norm",
    "Gradient norm",
    "step size",
    "How steep is the wall?",
    "Length of the mini-batch gradient before any clipping. Healthy is a curve without jumps of a decade; near 0 while "
    "the loss is high: a plateau or dead units, look at the layers; growing without end: lower the learning rate or "
    "clip.",
    ("GradNorm",),
)


def panel(runs: Runs) -> Panel:
    """Show the norm over all parameters on a logarithmic axis."""
    one = track(runs, "GradNorm")
    return draw(INSTRUMENT, runs, Chart([one], "norm", scale="log", facts=now(runs, one)))
