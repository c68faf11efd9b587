"""A panel for anything that has none of its own, from its kind."""

from cockpit.core.kinds import Kind
from cockpit.panels._base import Instrument, Panel, slug
from cockpit.panels.lines import Chart, draw, last, track
from cockpit.panels.runs import Runs

WORDS = {
    Kind.SCALAR: "One number for each tracked step.",
    Kind.PER_PARAMETER: "Total over all parameters; the layer view shows each.",
    Kind.PER_SAMPLE: "Spread over the samples of the batch.",
    Kind.HISTOGRAM: "Counts over the bins at the last tracked step.",
}


def panel(runs: Runs, name: str) -> Panel:
    """Show a quantity by its kind."""
    kind = next((source.kinds[name] for source in runs.sources if name in source.kinds), Kind.SCALAR)
    aid = (
        f"{WORDS[kind]} Healthy is a curve without jumps that you can explain; when it jumps, look at what else "
        "changed at that step."
    )
    instrument = Instrument(identity(name), name, "more", "How does it develop?", aid, (name,))
    one = track(runs, name)
    facts = [f"now {now}"] if len(runs) == 1 and (now := last(one.series[0])) else []
    return draw(instrument, runs, Chart([one], name, facts=facts))


def identity(name: str) -> str:
    """The panel's id."""
    return f"of-{slug(name)}"
