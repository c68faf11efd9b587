"""Each sample's share of the number that is backpropagated."""

import torch
from torch import Tensor

from cockpit.core.errors import why
from cockpit.engine.autograd.loss_calls import share
from cockpit.engine.autograd.samples import Samples

NO_LOSSES = (
    "no individual losses were seen; pass the loss as a module, use pit.loss(individual_losses), "
    "or for a model that returns its own loss watch(..., losses=...)"
)


def shares_of(samples: Samples, loss: Tensor) -> Tensor | str:
    """The shares, [N], or why they are not known."""
    seen = samples.seen
    try:
        with torch.no_grad():
            if seen.losses is not None:
                return share(seen.losses, float(loss), samples.count)
            if seen.calls:
                parts = [call.contributions(samples.count, samples.of_loss(call)) for _, call in seen.calls]
                return torch.stack(parts).sum(0)
            return _from_model(samples, loss)
    except Exception as error:
        return why(error)


def _from_model(samples: Samples, loss: Tensor) -> Tensor | str:
    """Individual losses of a model that returns its own: a callable, or an entry ``losses`` of its output."""
    for _, forward in samples.seen.forwards:
        if isinstance(forward.losses, str):
            return forward.losses
        if forward.losses is not None:
            return share(forward.losses, float(loss), samples.count)
    return NO_LOSSES
