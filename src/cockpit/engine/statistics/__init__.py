"""Statistics of individual gradients: one file for each, no device and no layer in any."""

from cockpit.engine.statistics._base import At, Rows, Shortcut, Statistic, finished

__all__ = ["At", "Rows", "Shortcut", "Statistic", "finished"]
