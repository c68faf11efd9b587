"""What cannot be drawn, in words: undefined values with their reasons, numbers that are not finite, nothing at all."""

from collections.abc import Sequence

import numpy as np

from cockpit.core.source import Series, Steps
from cockpit.panels.names import CONTEXT
from cockpit.panels.runs import Runs

ASK = {  # the preset that holds a quantity, for the sentence of an empty panel
    **dict.fromkeys(("TICDiag", "HessTrace"), "business"),
    **dict.fromkeys(("HessMaxEV", "GradHist2d"), "full"),
    **dict.fromkeys(
        ("Loss", "Time", "Alpha", "Distance", "UpdateSize", "GradNorm", "NormTest", "InnerTest", "OrthoTest"), "economy"
    ),
    "GradHist1d": "economy",
}


def not_finite(runs: Runs, place: int, name: str, series: Series) -> Steps:
    """Steps where a number was measured and is NaN or infinite; where it is undefined there is a reason instead."""
    broken = series.steps[~np.isfinite(series.values)]
    if not len(broken):
        return broken
    reasons = [steps for steps in runs.sources[place].reasons(name).values() if steps]
    return broken[~np.isin(broken, np.concatenate([np.array(steps) for steps in reasons]))] if reasons else broken


def undefined(runs: Runs, name: str) -> str:
    """How many values are undefined and why, in a few words; the last step alone is not worth a word."""
    counts: dict[str, int] = {}
    for place, source in enumerate(runs.sources):
        end = runs.broken(place)
        for reason, steps in source.reasons(name).items():
            if end is not None and end.broken is not None and steps and steps[0] >= end.broken:
                continue  # the alarm says it
            waiting = len(steps) == 1 and steps[0] >= _last(runs, place, name)
            counts[reason] = counts.get(reason, 0) + (0 if waiting else len(steps))
    counts = {reason: count for reason, count in counts.items() if count}
    if not counts:
        return ""
    found = [f"{count}× {reason}" if len(counts) > 1 else reason for reason, count in list(counts.items())[:2]]
    many = sum(counts.values())
    said = f"{name} undefined at {many} step{'s' if many > 1 else ''}"
    return f"{said} · {'; '.join(found)}{' …' if len(counts) > 2 else ''}"


def _last(runs: Runs, place: int, name: str) -> int:
    steps = runs.scalar(place, name).steps
    return int(steps[-1]) if len(steps) else 0


def nothing_to_see(runs: Runs, names: Sequence[str]) -> str:
    """Why a panel is empty: no run, not tracked, not yet measured, or undefined at every step."""
    if not len(runs):
        return "No run is chosen."
    if not any(source.kinds for source in runs.sources):
        return "Nothing has been measured yet."
    names = [name for name in names if name not in CONTEXT] or list(names)
    tracked = [name for name in names if runs.holding(name)]
    if not tracked:
        wanted = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        verb = "were" if len(names) > 1 else "was"
        if names[0] in CONTEXT:
            return f"{wanted} {verb} not recorded."
        how = f'quantities="{ASK[names[0]]}"' if names[0] in ASK else f"quantities=[..., {names[0]!r}]"
        return f"{wanted} {verb} not tracked; to see this: watch(..., {how})."
    reasons = {reason for name in tracked for source in runs.sources for reason in source.reasons(name)}
    if reasons:
        return f"{tracked[0]} is undefined at every tracked step: {'; '.join(sorted(reasons)[:2])}."
    return f"{tracked[0]} has no value yet."
