"""HessMaxEV."""

from cockpit.core.kinds import Cost
from cockpit.engine.needs import MAX_EIGENVALUE, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured, SingleStepQuantity


class HessMaxEV(SingleStepQuantity):
    r"""Largest eigenvalue of the mini-batch Hessian, :math:`\lambda_\max(\nabla^2 L)`, to a relative 1e-3.

    Lanczos with full reorthogonalisation on Hessian-vector products (after Yao et al. 2020, who iterate powers);
    the detail ``products`` counts them.
    """

    cost = Cost.FULL
    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """The largest eigenvalue."""
        return frozenset({MAX_EIGENVALUE})

    def measure(self, step: Observation) -> Measured:
        """Return the eigenvalue."""
        pair = step.eigenpair()
        return Measured(pair.value, {"products": pair.products, "residual": pair.residual})
