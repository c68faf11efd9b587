"""The trace of the curvature matrix: mean curvature times the number of parameters."""

from cockpit.panels._base import Instrument, Panel
from cockpit.panels.by_layer import heat_of
from cockpit.panels.curvature_kind import curvature_kind
from cockpit.panels.lines import Chart, draw, now, track
from cockpit.panels.runs import Runs

INSTRUMENT = Instrument(
    "trace",
    "Trace",
    "curvature",
    "How curved is the valley on average?",
    "Sum of the curvature over all parameters; the band is one standard error where the value is an estimate. Healthy "
    "is a rise early and then a level or falling curve; growing without end: the net runs into ever sharper valleys, "
    "lower the learning rate or regularise; 0: units are dead or the loss is saturated.",
    ("HessTrace",),
)


def panel(runs: Runs) -> Panel:
    """Show the total trace; the note says which curvature it is."""
    one = track(runs, "HessTrace")
    facts = [*now(runs, one), curvature_kind(runs, "HessTrace")]
    return draw(INSTRUMENT, runs, Chart([one], "trace", scale="log", facts=facts))


BY_LAYER = Instrument(
    "trace-layers",
    "Trace by layer",
    "curvature",
    "Which layer is sharp?",
    "Curvature of each layer from input (top) to output, over steps, darker is more (log); grey is exactly 0. Healthy "
    "is rows of similar tone; one dark row holds back the learning rate of all: normalise it or give it its own; grey "
    "rows are dead.",
    ("HessTrace",),
)


def by_layer(runs: Runs) -> Panel:
    """Show the trace of each layer of the first run that has one."""
    return heat_of(runs, BY_LAYER, "HessTrace")
