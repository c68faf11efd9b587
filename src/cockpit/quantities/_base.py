"""The contract of a quantity: a number, a vector or a histogram measured at a step.

To add a quantity, write a subclass of :class:`SingleStepQuantity` with its ``needs`` and ``measure`` in a new file, and
import it in ``quantities/__init__.py``. Store, panels and exports dispatch on its ``kind``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import torch

from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Cost, Kind
from cockpit.core.schedule import Schedule
from cockpit.engine.block import Block
from cockpit.engine.needs import Need
from cockpit.engine.observation import Observation

Value = Any  # float, dict name -> float, array or Histogram, as the kind says


class Moment(Enum):
    """The moment at which a quantity can be measured."""

    BACKWARD = "backward"  # the gradients are complete
    UPDATE = "update"  # the optimizer has stepped
    NEXT = "next"  # the gradients of the following step are complete


@dataclass(frozen=True, slots=True)
class Measured:
    """A value with its details: standard error, number of products, ..."""

    value: Value
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """The values of several steps, as they are recorded, with the details of each."""

    values: Sequence[Value]
    details: Sequence[Mapping[str, Any]] | None = None


class Quantity(ABC):
    """A quantity that is measured at tracked steps; the base class of all."""

    kind: ClassVar[Kind] = Kind.SCALAR
    cost: ClassVar[Cost | None] = None  # the smallest preset that includes it; None: on request only
    moment: ClassVar[Moment] = Moment.BACKWARD
    _compute: Callable[..., Any] | None = None  # takes the place of ``measure`` in the original Cockpit
    deferred: bool = False  # reads nothing but ``Observation.numbers``: may be measured when training has gone on

    def __init__(self, track_schedule: Schedule | None = None, verbose: bool = False) -> None:
        """Set the schedule.

        Args:
            track_schedule: A schedule step -> bool; None: that of the watch.
            verbose: Print each value.
        """
        if track_schedule is not None and not callable(track_schedule):
            raise CockpitError(f"track_schedule is {track_schedule!r}; give a callable step -> bool or None")
        self._track_schedule = track_schedule
        self._verbose = verbose
        self.output: dict[int, Any] = {}

    @property
    def name(self) -> str:
        """Name in the output: the class name."""
        return type(self).__name__

    @property
    def needs(self) -> frozenset[Need]:
        """Statistics that the engine must provide for ``measure``."""
        return frozenset()

    @abstractmethod
    def measure(self, step: Observation) -> Value | Measured:
        """Return the value, or raise ``Undefined`` with the reason; never write to the model."""

    def measure_together(self, block: Block) -> Series | None:
        """Return the values of all steps of a block; None, or ``Undefined``: ``measure`` is called for each step."""
        return None

    def should_compute(self, global_step: int) -> bool:
        """Return whether the quantity's schedule tracks this step; True without a schedule."""
        return self._track_schedule is None or bool(self._track_schedule(global_step))

    @property
    def scheduled(self) -> bool:
        """True if the quantity has a separate schedule."""
        return self._track_schedule is not None

    def create_graph(self, global_step: int) -> bool:
        """Return whether the backward pass must keep its graph; only quantities with ``_compute`` may need it."""
        return False

    def extensions(self, global_step: int) -> list[Any]:
        """Return no BackPACK extensions; here for quantities written for the original Cockpit."""
        return []

    def get_output(self) -> dict[int, Any]:
        """Return ``{step: value}`` in the paper's form: per-parameter values as lists, histograms as tensors."""
        return {step: _paper_form(value) for step, value in self.output.items()}

    def keep(self, global_step: int, value: Value) -> None:
        """Store a measured value in :attr:`output`."""
        self.output[global_step] = value
        if self._verbose:
            print(f"[Step {global_step}] {self.name}: {value}")


class SingleStepQuantity(Quantity):
    """A quantity of one step.

    Implement ``measure``, or ``_compute(global_step, params, batch_loss)`` as in the original Cockpit.
    """

    def measure(self, step: Observation) -> Value | Measured:
        """Return the value of ``_compute``."""
        if self._compute is None:
            raise NotImplementedError(f"{self.name} implements neither measure nor _compute")
        return self._compute(step.step, step.leaves, step.root)


class ByproductQuantity(SingleStepQuantity):
    """A quantity that comes without extra computation; the paper's name."""


class TwoStepQuantity(Quantity):
    """A quantity of the way from a step to the next, stored at the first of both."""

    SAVE_SHIFT: ClassVar[int] = 1
    moment: ClassVar[Moment] = Moment.NEXT

    def is_start(self, global_step: int) -> bool:
        """Return whether a tracked pair of steps starts here."""
        return self.should_compute(global_step)

    def is_end(self, global_step: int) -> bool:
        """Return whether a tracked pair of steps ends here."""
        return self.should_compute(global_step - self.SAVE_SHIFT)


def _paper_form(value: Value) -> Any:
    """Return lists for dictionaries by name, tensors for a histogram."""
    if isinstance(value, Histogram):
        edges = tuple(torch.from_numpy(axis).float() for axis in value.edges)
        counts = torch.from_numpy(value.counts)
        return {"hist": counts.float() if len(edges) == 1 else counts, "edges": edges[0] if len(edges) == 1 else edges}
    if isinstance(value, dict) and value and all(isinstance(entry, float) for entry in value.values()):
        return list(value.values())
    return value


def total(parts: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Sum per-sample vectors over parameters, in double precision: [B]."""
    return torch.stack([part.double() for part in parts.values()]).sum(0)
