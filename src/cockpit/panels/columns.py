"""Columns of heat maps: which steps are drawn, and how wide each is."""

import numpy as np

from cockpit.core.source import Steps, Values
from cockpit.panels.runs import Runs
from cockpit.panels.thin import place, window


def spread_steps(steps: Steps, count: int, runs: Runs) -> Steps:
    """At most ``count`` of the steps in view, even on the axis in use, the last one among them."""
    steps = steps[window(steps, runs.view.span)]
    if len(steps) <= count:
        return steps
    where = place(steps, runs.log)
    wanted = np.linspace(where[0], where[-1], count)
    return steps[np.unique(np.clip(np.searchsorted(where, wanted - 1e-9), 0, len(steps) - 1))]


def step_edges(steps: Steps, runs: Runs) -> tuple[Values, Values]:
    """Where each column begins and ends: halfway to its neighbours on the axis in use."""
    if len(steps) == 1:
        return np.array([steps[0] - 0.5]), np.array([steps[0] + 0.5])
    where = place(steps, runs.log)
    middle = (where[1:] + where[:-1]) / 2
    back = np.expm1(middle) if runs.log else middle
    return np.concatenate([[float(steps[0])], back]), np.concatenate([back, [float(steps[-1])]])
