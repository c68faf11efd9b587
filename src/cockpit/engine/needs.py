"""What a quantity can ask the engine for, known before the backward pass."""

from dataclasses import dataclass

from cockpit.engine.statistics._base import Statistic

SQ_NORM = "sq_norm"  # ||g_n||^2
DOT_GRAD = "dot_grad"  # <g_n, g>
SUM_SQ = "sum_sq"  # sum_n g_n^2, elementwise
ABS_MAX = "abs_max"  # largest |g_n,j|
LOSSES = "losses"  # individual losses
GRADIENT = "gradient"  # ||g||
DISTANCE = "distance"  # ||theta_t - theta_0||
UPDATE = "update"  # theta_{t+1} - theta_t
LINE = "line"  # losses and slopes at both ends of the step
MAX_EIGENVALUE = "max_eigenvalue"


@dataclass(frozen=True, slots=True)
class Diagonal:
    """Diagonal of the curvature: ``kind`` as in ``HessTrace``, ``samples`` for the estimators."""

    kind: str = "ggn"
    samples: int = 1

    @property
    def name(self) -> str:
        """What it is called beside a parameter."""
        return f"curvature {self.kind} {self.samples}"


@dataclass(frozen=True, slots=True)
class Trace:
    """Its trace, of each parameter and each estimate."""

    diagonal: Diagonal


Need = str | Diagonal | Trace | Statistic

PER_SAMPLE = (SQ_NORM, DOT_GRAD, SUM_SQ, ABS_MAX, LINE)


def per_sample(needs: frozenset[Need]) -> bool:
    """Whether any need is about individual gradients."""
    return any(need in PER_SAMPLE or isinstance(need, Statistic) for need in needs)


def double_backward(needs: frozenset[Need]) -> bool:
    """Whether the network itself is differentiated twice."""
    return MAX_EIGENVALUE in needs or any(
        isinstance(need, Diagonal) and need.kind in ("hessian", "hutchinson") for need in needs
    )
