"""Each sample's share of the number that is backpropagated."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from cockpit.core.errors import why
from cockpit.engine.autograd.loss_calls import share
from cockpit.engine.autograd.losses import individual_losses
from cockpit.engine.autograd.samples import Samples


def read(
    samples: Samples, roots: Sequence[Tensor], seeds: Sequence[Tensor | None], parameters: Mapping[str, Tensor]
) -> Tensor | str:
    """What the graph of the loss says, before it is freed; a reason where it is not known, or told by the user."""
    seen = samples.seen
    told = seen.losses is not None or any(forward.losses is not None for _, forward in seen.forwards)
    if told or any(call.given is not None for _, call in seen.calls):
        return "the user tells the individual losses"
    try:
        return individual_losses(roots, seeds, parameters, samples.count, samples.sources, samples.told)
    except Exception as error:  # a user's training never breaks because it is watched
        return why(error)


@torch.no_grad()
def shares_of(samples: Samples, loss: Tensor, of_graph: Tensor | str) -> Tensor | str:
    """The shares, [N], or why they are not known: of what the user handed over, else of the graph of the loss, else of
    the loss module.
    """
    seen = samples.seen
    try:
        if seen.losses is not None:
            return share(seen.losses, float(loss), samples.count)
        told = None if any(call.given is not None for _, call in seen.calls) else _from_model(samples, loss)
        if told is not None:
            return told
        if isinstance(of_graph, Tensor):
            return of_graph
        if seen.calls:
            parts = [call.contributions(samples.count, samples.of_loss(call)) for _, call in seen.calls]
            return torch.stack(parts).sum(0)
        return of_graph
    except Exception as error:
        return why(error)


def _from_model(samples: Samples, loss: Tensor) -> Tensor | str | None:
    """Individual losses of a model that returns its own: a callable, or an entry ``losses`` of its output."""
    for _, forward in samples.seen.forwards:
        if isinstance(forward.losses, str):
            return forward.losses
        if forward.losses is not None:
            return share(forward.losses, float(loss), samples.count)
    return None
