"""The option ``curvature`` of HessTrace, TICDiag and TICTrace."""

from cockpit.core.errors import CockpitError, unknown
from cockpit.core.schedule import Schedule
from cockpit.engine.needs import Diagonal, Need, Trace
from cockpit.engine.observation import Numeric
from cockpit.quantities._base import SingleStepQuantity

ORIGINAL_NAMES = {"diag_ggn_exact": "ggn", "diag_h": "hessian", "diag_ggn_mc": "ggn_mc"}
KINDS = ("ggn", "hessian", "ggn_mc", "hutchinson")


class CurvatureQuantity(SingleStepQuantity):
    """A quantity of the diagonal curvature.

    Args:
        curvature: ``"ggn"``: exact generalised Gauss-Newton, never negative, the Hessian's diagonal on piecewise-linear
            nets; Monte Carlo above 1,024 outputs of a sample. ``"hessian"``: exact, for small nets. ``"ggn_mc"``: Monte
            Carlo. ``"hutchinson"``: random probes of the Hessian. The original's names are accepted.
        samples: Number of Monte Carlo samples or probes; from two on, the standard error is in the details.
    """

    deferred = True

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
        self._trace = Trace(self._diagonal)

    @property
    def needs(self) -> frozenset[Need]:
        """The diagonal of the curvature, and its trace."""
        return frozenset({self._diagonal, self._trace})

    @property
    def curvature(self) -> str:
        """Name of the curvature."""
        return self._diagonal.kind


def mean(estimates: Numeric) -> float:
    """Return the mean; quick for a single estimate."""
    return float(estimates[0] if len(estimates) == 1 else estimates.mean())
