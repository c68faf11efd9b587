"""Statistics of individual gradients: one file for each, no device and no layer in any."""

from cockpit.engine.statistics._base import At, Shortcut, Statistic, finished

__all__ = ["At", "Shortcut", "Statistic", "finished"]
