"""The choice of curvature that several quantities share."""

from collections.abc import Mapping

import torch

from cockpit.core.errors import CockpitError, unknown
from cockpit.core.schedule import Schedule
from cockpit.engine.needs import Diagonal, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity

ORIGINAL_NAMES = {"diag_ggn_exact": "ggn", "diag_h": "hessian", "diag_ggn_mc": "ggn_mc"}
KINDS = ("ggn", "hessian", "ggn_mc", "hutchinson")


class CurvatureQuantity(SingleStepQuantity):
    """A quantity of the diagonal curvature.

    Args:
        curvature: ``"ggn"`` (exact generalised Gauss-Newton, never negative, equal to the Hessian's diagonal on
            piecewise-linear nets), ``"hessian"`` (exact, for small nets), ``"ggn_mc"`` (Monte Carlo) or
            ``"hutchinson"`` (random probes of the Hessian); the original's names are accepted.
        samples: Number of Monte Carlo samples or probes; with two or more the standard error is reported.
    """

    def __init__(
        self,
        track_schedule: Schedule | None = None,
        verbose: bool = False,
        curvature: str = "ggn",
        samples: int = 1,
    ) -> None:
        super().__init__(track_schedule, verbose)
        kind = ORIGINAL_NAMES.get(curvature, curvature)
        if kind not in KINDS:
            raise unknown("curvature", curvature, [*KINDS, *ORIGINAL_NAMES])
        if not isinstance(samples, int) or isinstance(samples, bool) or samples < 1:
            raise CockpitError(f"samples is {samples!r}; give a whole number, 1 or more")
        self._diagonal = Diagonal(kind, samples if kind in ("ggn_mc", "hutchinson") else 1)

    @property
    def needs(self) -> frozenset[Need]:
        """The diagonal."""
        return frozenset({self._diagonal})

    def estimates(self, step: Observation) -> list[Mapping[str, torch.Tensor]]:
        """Diagonals of each parameter: one if exact, else one per sample."""
        return list(step.diagonal(self._diagonal))

    def mean_diagonal(self, step: Observation) -> dict[str, torch.Tensor]:
        """Mean of the estimates."""
        found = self.estimates(step)
        return {name: torch.stack([estimate[name] for estimate in found]).mean(0) for name in found[0]}

    @property
    def curvature(self) -> str:
        """Which curvature is used."""
        return self._diagonal.kind
