"""The contract of a quantity: a number, a vector or a histogram measured from one observed step.

To add one: a file with a subclass of :class:`SingleStepQuantity` that says what it ``needs`` and how to ``measure`` it,
and a line in ``quantities/__init__.py``. Store, panels and exporters dispatch on its ``kind``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import torch

from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Cost, Kind
from cockpit.core.schedule import Schedule
from cockpit.engine.needs import Need
from cockpit.engine.observation import Observation

Value = Any  # float, dict name -> float, array or Histogram, as the kind says


class Moment(Enum):
    """When a quantity can be measured."""

    BACKWARD = "backward"  # the gradients are complete
    UPDATE = "update"  # the optimizer has stepped
    NEXT = "next"  # the gradients of the following step are complete


@dataclass(frozen=True, slots=True)
class Measured:
    """A value with what belongs to it: standard error, number of products, ..."""

    value: Value
    details: Mapping[str, Any] = field(default_factory=dict)


class Quantity(ABC):
    """Something to measure at tracked steps."""

    kind: ClassVar[Kind] = Kind.SCALAR
    cost: ClassVar[Cost | None] = None  # the cheapest preset that holds it; None: on request only
    moment: ClassVar[Moment] = Moment.BACKWARD
    _compute: Callable[..., Any] | None = None  # how a quantity of the paper's kind says what it measures
    deferred: bool = False  # reads nothing but ``Observation.numbers``: may be measured when training has gone on

    def __init__(self, track_schedule: Schedule | None = None, verbose: bool = False) -> None:
        """Store when to track.

        Args:
            track_schedule: Maps a step to a truth value; None: the cockpit decides.
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
        """Statistics that the engine must provide, known before the backward pass."""
        return frozenset()

    @abstractmethod
    def measure(self, step: Observation) -> Value | Measured:
        """Return the value, or raise ``Undefined`` with the reason; reads only, never writes to the model."""

    def should_compute(self, global_step: int) -> bool:
        """Whether the quantity is tracked at this step; without a schedule of its own, always."""
        return self._track_schedule is None or bool(self._track_schedule(global_step))

    @property
    def scheduled(self) -> bool:
        """Whether the quantity has a schedule of its own."""
        return self._track_schedule is not None

    def create_graph(self, global_step: int) -> bool:
        """Whether the backward pass must keep its graph; only quantities of the paper's kind ever need it."""
        return False

    def extensions(self, global_step: int) -> list[Any]:
        """BackPACK extensions: none are needed; kept so that quantities written for the paper's tool run."""
        return []

    def get_output(self) -> dict[int, Any]:
        """Return ``{step: value}`` in the paper's form: per-parameter values as lists, histograms as tensors."""
        return {step: _paper_form(value) for step, value in self.output.items()}

    def keep(self, global_step: int, value: Value) -> None:
        """Take a measured value into :attr:`output`."""
        self.output[global_step] = value
        if self._verbose:
            print(f"[Step {global_step}] {self.name}: {value}")


class SingleStepQuantity(Quantity):
    """A quantity of one step.

    Implement ``measure``; or, as in the paper's tool, ``_compute(global_step, params, batch_loss)``.
    """

    def measure(self, step: Observation) -> Value | Measured:
        """Call the paper's ``_compute``."""
        if self._compute is None:
            raise NotImplementedError(f"{self.name} implements neither measure nor _compute")
        return self._compute(step.step, step.leaves, step.root)


class ByproductQuantity(SingleStepQuantity):
    """A quantity that needs no computation of its own (the paper's name for it)."""


class TwoStepQuantity(Quantity):
    """A quantity of a step from one point to the next, stored under the point where it starts."""

    SAVE_SHIFT: ClassVar[int] = 1
    moment: ClassVar[Moment] = Moment.NEXT

    def is_start(self, global_step: int) -> bool:
        """Whether a tracked pair starts here."""
        return self.should_compute(global_step)

    def is_end(self, global_step: int) -> bool:
        """Whether a tracked pair ends here."""
        return self.should_compute(global_step - self.SAVE_SHIFT)


def _paper_form(value: Value) -> Any:
    """Lists instead of dictionaries by name, tensors instead of a histogram."""
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
