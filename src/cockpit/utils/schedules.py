"""Schedules, at the import path of the original Cockpit."""

from cockpit.core.schedule import linear, logarithmic

__all__ = ["linear", "logarithmic"]
