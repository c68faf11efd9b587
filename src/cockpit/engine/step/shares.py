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
        told: Tensor | str | None = seen.losses
        if told is None and all(call.given is None for _, call in seen.calls):  # a model may return its own
            told = next((forward.losses for _, forward in seen.forwards if forward.losses is not None), None)
        if told is not None:
            return told if isinstance(told, str) else share(told, float(loss), samples.count)
        if isinstance(of_graph, Tensor):
            return of_graph
        if seen.calls:
            parts = [call.contributions(samples.count, samples.of_loss(call)) for _, call in seen.calls]
            return torch.stack(parts).sum(0)
        return of_graph
    except Exception as error:
        return why(error)
