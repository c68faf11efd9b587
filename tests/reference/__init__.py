"""Slow, obvious float64 reference for every number, one sample at a time."""

from .gradients import coupled_contributions, individual_gradients
from .run import Step, reference_run, reference_steps

__all__ = [
    "Step",
    "coupled_contributions",
    "individual_gradients",
    "reference_run",
    "reference_steps",
]
