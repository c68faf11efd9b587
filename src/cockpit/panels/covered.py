"""Values of a part of the model say so in the title: of how many of its elements they are."""

from dataclasses import replace

from cockpit.core.record import COVERED, percent
from cockpit.panels._base import Panel
from cockpit.panels.runs import Runs


def covered(panel: Panel, runs: Runs) -> Panel:
    """The panel with the share of elements in its title, where a value in sight is not of all of them."""
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
    """The smallest share of one run, and at how many steps there was one if not at all."""
    for name in names:
        shares = runs.seen(runs.detail(place, name, COVERED).defined())
        if len(shares):
            steps = len(runs.scalar(place, name).defined()) or len(runs.sources[place].counted(name))
            whole = len(runs.detail(place, name, COVERED)) >= steps
            some = "" if whole else f" at {len(shares)} {'step' if len(shares) == 1 else 'steps'}"
            return f"of {percent(float(shares.values.min()))} of all elements{some}"
    return ""
