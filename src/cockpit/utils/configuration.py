"""Presets, at the import path of the original Cockpit."""

from cockpit.core.schedule import Schedule, linear
from cockpit.quantities import preset
from cockpit.quantities._base import Quantity


def configuration(label: str, track_schedule: Schedule | None = None, verbose: bool = False) -> list[Quantity]:
    """Return the quantities of ``"economy"``, ``"business"`` or ``"full"``, on a schedule; None: every step."""
    schedule = linear(1) if track_schedule is None else track_schedule
    return [quantity(track_schedule=schedule, verbose=verbose) for quantity in preset(label)]


def quantities_cls_for_configuration(label: str) -> list[type[Quantity]]:
    """Return the classes of a preset."""
    return preset(label)
