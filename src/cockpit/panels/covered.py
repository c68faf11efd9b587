"""Values of a part of the model, or of the samples of one process, say so in the title."""

from dataclasses import replace

from cockpit.core.record import COVERED, PROCESS, percent
from cockpit.panels._base import Panel
from cockpit.panels.runs import Runs


def covered(panel: Panel, runs: Runs) -> Panel:
    """The panel with a part in its title, where a value in sight is not of all elements and all samples."""
    if panel.empty:
        return panel
    found = {place: words for place in range(len(runs)) if (words := _partial(runs, place, panel.names))}
    if not found:
        return panel
    if runs.several:
        said = "; ".join(f"{runs.labels[place]}: {words}" for place, words in found.items())
    else:
        said = found[0]
    return replace(panel, title=f"{panel.title}, {said}")


def _partial(runs: Runs, place: int, names: tuple[str, ...]) -> str:
    """The smallest share of one run, and at how many steps there was one if not at all; else the process."""
    said = [word for name in names if (word := runs.sources[place].constant(name, PROCESS))]
    process = f"samples of {said[0]}" if said else ""
    for name in names:
        shares = runs.seen(runs.detail(place, name, COVERED).defined())
        if len(shares):
            steps = len(runs.scalar(place, name).defined()) or len(runs.sources[place].counted(name))
            whole = len(runs.detail(place, name, COVERED)) >= steps
            some = "" if whole else f" at {len(shares)} {'step' if len(shares) == 1 else 'steps'}"
            share = f"of {percent(float(shares.values.min()))} of all elements{some}"
            return f"{share}, {process}" if process else share
    return process
