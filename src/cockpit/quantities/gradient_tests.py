"""NormTest, InnerTest, OrthoTest: scatter of individual gradients around their mean."""

from abc import abstractmethod
from math import sqrt

from cockpit.core.errors import Undefined
from cockpit.core.kinds import Cost
from cockpit.core.record import percent
from cockpit.engine.needs import DOT_GRAD, SQ_NORM, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity


class _GradientTest(SingleStepQuantity):
    cost = Cost.ECONOMY
    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """Norms of individual gradients and their projections on the mean."""
        return frozenset({SQ_NORM, DOT_GRAD})

    def measure(self, step: Observation) -> float:
        """Return the radius."""
        size = step.batch_size
        mean, norms, inner = step.scatter()
        if size < 2:
            raise Undefined("a batch of one sample has no variance")
        if mean == 0:
            seen = "" if step.coverage == 1 else f" on the {percent(step.coverage)} that are covered, see explain()"
            raise Undefined(f"the gradient is zero{seen}")
        squared = self._squared(norms, inner, size) / (size * (size - 1))
        return sqrt(max(squared, 0.0)) if squared == squared else squared

    @staticmethod
    @abstractmethod
    def _squared(norms: float, inner: float, size: int) -> float:
        """B (B - 1) times the squared radius, from the sums of ||g_n||^2 / ||g||^2 and <g_n, g>^2 / ||g||^4."""


class NormTest(_GradientTest):
    r"""Norm test: gradient noise in all directions, relative to the mean gradient (Byrd et al. 2012).

    :math:`\sqrt{[\sum_n \|g_n\|^2 / \|g\|^2 - B] / (B(B-1))}`; its square is that of InnerTest plus that of OrthoTest.
    """

    @staticmethod
    def _squared(norms: float, inner: float, size: int) -> float:
        return norms - size


class InnerTest(_GradientTest):
    r"""Inner product test: gradient noise along the mean gradient (Bollapragada et al. 2017).

    :math:`\sqrt{[\sum_n \langle g_n, g\rangle^2 / \|g\|^4 - B] / (B(B-1))}`.
    """

    @staticmethod
    def _squared(norms: float, inner: float, size: int) -> float:
        return inner - size


class OrthoTest(_GradientTest):
    r"""Orthogonality test: gradient noise across the mean gradient (Bollapragada et al. 2017).

    :math:`\sqrt{\sum_n [\|g_n\|^2 / \|g\|^2 - \langle g_n, g\rangle^2 / \|g\|^4] / (B(B-1))}`.
    """

    @staticmethod
    def _squared(norms: float, inner: float, size: int) -> float:
        return norms - inner
