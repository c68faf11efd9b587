"""One table of training runs that every test of numbers goes through."""

from .architectures import ARCHITECTURES
from .case import Case, Setup, cast
from .data import Batch
from .goldens import GOLDENS, golden_case, golden_values
from .losses import Loss
from .styles import LOOPS, Loop
from .trainings import TRAININGS

CASES: dict[str, Case] = {case.name: case for case in (*ARCHITECTURES, *TRAININGS)}

__all__ = [
    "CASES", "GOLDENS", "LOOPS", "Batch", "Case", "Loop", "Loss", "Setup", "cast",
    "golden_case", "golden_values",
]  # fmt: skip
