"""Individual gradients, one sample at a time.

g_n := B x (sample n's contribution to the gradient of L), so that the mean over n is the gradient
whatever the reduction of the loss.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

Named = dict[str, Tensor]
Scalar = Callable[[nn.Module], Tensor]  # model -> a number to differentiate


def trainable(model: nn.Module) -> Named:
    """The parameters that are trained, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def gradient(model: nn.Module, scalar: Scalar) -> dict[str, Tensor | None]:
    """Gradient of a number that a function computes from the model; None: not involved."""
    named = trainable(model)
    grads = torch.autograd.grad(scalar(model), list(named.values()), allow_unused=True)
    return dict(zip(named, grads, strict=True))


def individual_gradients(model: nn.Module, shares: Sequence[Scalar]) -> tuple[Named, Tensor]:
    """g_n by name, [B, *shape], and individual losses, [B].

    `shares[n](model)` runs the model on sample n alone and returns its contribution to L.
    """
    rows = [gradient(model, share) for share in shares]
    losses = torch.stack([share(model).detach() for share in shares])
    involved = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    zeros = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
    stacked = {name: torch.stack([zeros[name] if (c := row[name]) is None else c for row in rows]) for name in involved}
    return {name: len(shares) * c for name, c in stacked.items()}, len(shares) * losses


class _CopyPerSample(nn.Module):
    """A layer in which sample n meets its own copy of the parameters.

    Row n of the output is row n of the layer applied to the *whole* batch with copy n, so batch
    statistics are those of the whole batch.
    """

    def __init__(self, layer: nn.Module, copies: Named) -> None:
        super().__init__()
        self.layer = layer
        self.copies = copies  # a plain dict: not registered

    def forward(self, x: Tensor) -> Tensor:
        rows = []
        for n in range(x.shape[0]):
            own = {name: copies[n] for name, copies in self.copies.items()}
            rows.append(functional_call(self.layer, own, (x,))[n : n + 1])
        return torch.cat(rows)


def coupled_contributions(model: nn.Module, samples: int, loss: Scalar) -> Named:
    """Contributions to the gradient, [B, *shape], where samples meet inside the model.

    With BatchNorm in training mode, a forward pass of one sample is another function. Instead,
    every layer gets one copy of its parameters per sample, all equal; the derivative of L with
    respect to copy n is the contribution through sample n's activations. Layers must be leaves
    with the batch axis first.
    """
    model = copy.deepcopy(model)
    every: Named = {}
    replaced: dict[nn.Module, nn.Module] = {}  # a layer may have two names
    for path, layer in list(model.named_modules(remove_duplicate=False)):
        own = dict(layer.named_parameters(recurse=False))
        if own and layer not in replaced:
            assert not list(layer.children()), f"{path} has parameters and children"
            copies = {
                name: p.detach().expand(samples, *p.shape).clone().requires_grad_()
                for name, p in own.items()
                if p.requires_grad
            }
            replaced[layer] = _CopyPerSample(layer, copies)
            every |= {f"{path}.{name}": c for name, c in copies.items()}
        if own:
            model.set_submodule(path, replaced[layer])
    grads = torch.autograd.grad(loss(model), list(every.values()))
    return dict(zip(every, grads, strict=True))
