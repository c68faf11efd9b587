"""The paper's import path for schedules."""

from cockpit.core.schedule import linear, logarithmic

__all__ = ["linear", "logarithmic"]
