"""CABS."""

from cockpit.core.errors import Undefined
from cockpit.engine.needs import DOT_GRAD, SQ_NORM, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity


class CABS(SingleStepQuantity):
    r"""Batch size suggested by coupling it to the learning rate (Balles, Romero, Hennig 2017).

    :math:`\sum_\text{groups} \eta\, \tfrac{1}{B} \sum_n \|g_n - g\|^2 / L`, each parameter group with its own rate.
    """

    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """Squared norms of individual gradients."""
        return frozenset({SQ_NORM, DOT_GRAD})

    def measure(self, step: Observation) -> float:
        """Return the suggested batch size."""
        if step.loss <= 0:
            raise Undefined(f"the loss is {step.loss:g}, not positive")
        if not step.learning_rates:
            raise Undefined("the optimizer's learning rate is not known")
        mean = step.mean_sq()
        noise = {name: max(0.0, square / step.batch_size - mean[name]) for name, square in step.squares().items()}
        weighted = sum(rate * sum(noise.get(name, 0.0) for name in names) for rate, names in step.learning_rates)
        return weighted / step.loss
