"""Policies that adapt the limits of histograms during training."""

from abc import abstractmethod

from cockpit.core.schedule import Schedule
from cockpit.engine.needs import ABS_MAX, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity

Range = tuple[float, float]


class BinAdaptation(SingleStepQuantity):
    """A policy: the limits for later steps, from the values of this step."""

    @abstractmethod
    def measure(self, step: Observation) -> Range:
        """Return the new limits."""


class NoAdaptation(BinAdaptation):
    """Keep the limits."""

    def __init__(self, verbose: bool = False) -> None:
        super().__init__(lambda global_step: False, verbose)

    def measure(self, step: Observation) -> Range:
        """Raise an error; the schedule never calls this."""
        raise NotImplementedError


class _AbsMax(BinAdaptation):
    """Symmetric limits at the largest absolute value, with relative padding and a minimum size."""

    def __init__(
        self,
        track_schedule: Schedule | None = None,
        verbose: bool = False,
        padding: float = 0.0,
        min_size: float = 1e-6,
    ) -> None:
        super().__init__(track_schedule, verbose)
        self._padding, self._min_size = padding, min_size

    def measure(self, step: Observation) -> Range:
        """Return the new limits."""
        end = (1 + self._padding) * max(self._min_size / 2, self._abs_max(step))
        if self._verbose:
            print(f"[Step {step.step}] {self.name}: new limits {-end:.5f}, {end:.5f}")
        return -end, end

    @abstractmethod
    def _abs_max(self, step: Observation) -> float: ...


class GradAbsMax(_AbsMax):
    """Limits at the largest absolute element of the individual gradients."""

    @property
    def needs(self) -> frozenset[Need]:
        """The largest element."""
        return frozenset({ABS_MAX})

    def _abs_max(self, step: Observation) -> float:
        return step.abs_max()


class ParamAbsMax(_AbsMax):
    """Limits at the largest absolute parameter."""

    def _abs_max(self, step: Observation) -> float:
        return max(float(theta.detach().abs().max()) for theta in step.parameters.values())
