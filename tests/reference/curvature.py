"""Curvature by brute force: dense Jacobians and Hessians, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from .gradients import Named, Scalar, trainable


def rows(values: Tensor, params: list[Tensor]) -> Tensor:
    """Jacobian of a tensor with respect to parameters, [values, D]."""
    made = []
    for value in values.flatten():
        grads = torch.autograd.grad(value, params, retain_graph=True, allow_unused=True, materialize_grads=True)
        made.append(torch.cat([g.flatten() for g in grads]))
    return torch.stack(made)


def by_name(model: nn.Module, flat: Tensor) -> Named:
    """A vector of length D, cut into the shapes of the parameters."""
    named = trainable(model)
    parts = flat.split([p.numel() for p in named.values()])
    return {name: part.view_as(p) for (name, p), part in zip(named.items(), parts, strict=True)}


def hessian(model: nn.Module, loss: Scalar) -> Tensor:
    """Dense Hessian of L, [D, D]."""
    params = list(trainable(model).values())
    grads = torch.autograd.grad(loss(model), params, create_graph=True, allow_unused=True, materialize_grads=True)
    flat = torch.cat([g.flatten() for g in grads])
    if not flat.requires_grad:
        return torch.zeros(len(flat), len(flat), dtype=flat.dtype)
    return torch.stack([torch.zeros_like(flat) if not g.requires_grad else rows(g, params)[0] for g in flat])


def ggn_diagonal(model: nn.Module, terms: Iterable[tuple[Tensor, Callable[[Tensor], Tensor]]]) -> Tensor:
    """Diagonal of the sum of J^T H J, [D].

    Each term is an output of the model, with its graph, and the part of L as a function of it;
    J is the Jacobian of all outputs of all samples, H the Hessian with respect to all of them.
    """
    params = list(trainable(model).values())
    total = torch.zeros(sum(p.numel() for p in params), dtype=torch.float64)
    for output, loss in terms:
        jacobian = rows(output, params)
        block = torch.autograd.functional.hessian(loss, output.detach())
        block = block.reshape(output.numel(), output.numel())
        total += torch.einsum("kd,kl,ld->d", jacobian, block, jacobian)
    return total


def largest_eigenvalue(matrix: Tensor) -> float | None:
    """Algebraically largest eigenvalue of a symmetric matrix."""
    if not torch.isfinite(matrix).all():
        return None
    return float(torch.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])
