"""Factors of the Hessian of a loss with respect to the network's outputs: columns, or what they are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Node
from cockpit.layers.layout import Layout


@dataclass(frozen=True, slots=True)
class Target:
    """A result, [N, C] up to the order of its elements."""

    node: Node
    output: int
    shape: tuple[int, ...]
    layout: Layout
    dtype: torch.dtype

    @property
    def size(self) -> int:
        """C: elements of each sample."""
        return prod(self.shape) // self.layout.samples

    def gather(self, tensor: Tensor) -> Tensor:
        """Samples first: [..., *shape] -> [..., N, C]."""
        lead = tensor.shape[: tensor.dim() - len(self.shape)]
        split = tensor.reshape(*lead, self.size // self.layout.inner, self.layout.samples, self.layout.inner)
        return split.transpose(-3, -2).reshape(*lead, self.layout.samples, self.size)

    def spread(self, rows: Tensor) -> Tensor:
        """Undo :meth:`gather`."""
        lead = rows.shape[:-2]
        split = rows.reshape(*lead, self.layout.samples, self.size // self.layout.inner, self.layout.inner).transpose(
            -3, -2
        )
        return split.reshape(*lead, *self.shape).to(self.dtype)


StandIn = Callable[[Node], Node]


class Factor(Protocol):
    """Something that columns are made of, on the device; the same tensors may lie elsewhere when they are."""

    def tensors(self) -> tuple[Tensor, ...]:
        """What it is made of."""

    def on(self, tensors: Sequence[Tensor], stand_in: StandIn) -> "Factor":
        """The same of other tensors, for stand-ins of the nodes."""

    def columns(self) -> "Columns":
        """Make them."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The factor: k columns for each block of outputs of a sample, K = k B in all."""

    targets: tuple[Target, ...]
    blocks: Tensor  # [k, N, B, c]: each column lives on one of B blocks of c outputs
    signs: Tensor | None  # [k, N, B]: 1, -1, or 0 for a column of zeros; None: no column is negative
    apart: int = 1  # in a sample the outputs of a block are so far from each other

    def tensors(self) -> tuple[Tensor, ...]:
        """What it is made of."""
        return (self.blocks,) if self.signs is None else (self.blocks, self.signs)

    def on(self, tensors: Sequence[Tensor], stand_in: StandIn) -> "Columns":
        """The same of other tensors, for stand-ins of the nodes."""
        targets = tuple(replace(target, node=stand_in(target.node)) for target in self.targets)
        return Columns(targets, tensors[0], None if self.signs is None else tensors[1], self.apart)

    def columns(self) -> "Columns":
        """Itself."""
        return self

    def __len__(self) -> int:
        return self.blocks.shape[0] * self.blocks.shape[2]

    @property
    def samples(self) -> int:
        """N."""
        return self.blocks.shape[1]

    def rows(self, begin: int, end: int) -> Tensor:
        """Columns [begin, end): [columns, N, C]."""
        each, _, blocks, _ = self.blocks.shape
        found = self.blocks.permute(2, 0, 1, 3).flatten(0, 1)[begin:end, :, None]  # [columns, N, 1, c]
        if blocks > 1:
            here = torch.arange(begin, end, device=found.device) // each
            found = found * torch.eye(blocks, dtype=found.dtype, device=found.device)[here][:, None, :, None]
        apart = found.reshape(*found.shape[:2], blocks // self.apart, self.apart, found.shape[3])
        return apart.transpose(3, 4).flatten(2)

    def signs_of(self, begin: int, end: int) -> Tensor | None:
        """[columns, N]."""
        return None if self.signs is None else self.signs.permute(2, 0, 1).flatten(0, 1)[begin:end]

    def seeds(self, rows: Tensor) -> list[Tensor]:
        """[columns, N, C] -> gradients of the targets, [columns, *shape]."""
        parts = rows.split([target.size for target in self.targets], dim=2)
        return [target.spread(part) for target, part in zip(self.targets, parts, strict=True)]


@dataclass(frozen=True, slots=True)
class Softmax:
    """L = sum_rc G_rc log p_rc with constant G: each row r has the Hessian -sum_c G_rc (diag p - p p^T)."""

    target: Target
    classes: int
    apart: int
    positive: bool  # surely: no column is negative
    log_p: Tensor
    slopes: tuple[Tensor, ...]  # G, from each operation that takes the softmax

    def tensors(self) -> tuple[Tensor, ...]:
        """What it is made of."""
        return self.log_p, *self.slopes

    def on(self, tensors: Sequence[Tensor], stand_in: StandIn) -> "Softmax":
        """The same of other tensors, for stand-ins of the nodes."""
        target = replace(self.target, node=stand_in(self.target.node))
        return replace(self, target=target, log_p=tensors[0], slopes=tuple(tensors[1:]))

    def gradient(self) -> Tensor:
        """Of L with respect to the target."""
        log_p, slope = self._rows()
        return self._spread(slope - log_p.exp() * slope.sum(2, keepdim=True))

    def hessian(self) -> Callable[[Tensor], Tensor]:
        """The product with it."""
        log_p, slope = self._rows()
        dtype = self.target.dtype if self.target.dtype == torch.float32 else torch.float64
        p, weight = log_p.exp().to(dtype), -slope.sum(2, keepdim=True).to(dtype)

        def product(vector: Tensor) -> Tensor:
            rows = _by_row(self.target, vector.to(dtype), self.classes, self.apart)
            moved = torch.ops.aten._softmax_backward_data.default(rows, p, 2, dtype)  # p (v - <p, v>)
            return self._spread(weight * moved)

        return product

    def _rows(self) -> tuple[Tensor, Tensor]:
        log_p, *parts = (_by_row(self.target, tensor.double(), self.classes, self.apart) for tensor in self.tensors())
        return log_p, parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)

    def _spread(self, rows: Tensor) -> Tensor:
        """[N, rows, classes] in the target's shape."""
        split = rows.reshape(len(rows), -1, self.apart, self.classes).transpose(2, 3)
        return self.target.spread(split.reshape(len(rows), -1))

    def columns(self) -> Columns:
        """Their Cholesky factor."""
        log_p, slope = self._rows()
        weight = -slope.sum(2)  # [N, rows]
        blocks = cholesky_of_softmax(log_p.exp()) * weight.abs().sqrt()[..., None, None]
        signs = None if self.positive else weight.sign().expand(self.classes - 1, *weight.shape)
        return Columns((self.target,), blocks.permute(3, 0, 1, 2), signs, self.apart)


def cholesky_of_softmax(p: Tensor) -> Tensor:
    """Factor diag p - p p^T = S S^T with one column less than classes: [..., C] -> [..., C, C - 1].

    Column j is sqrt(p_j t_{j+1} / t_j) (e_j - p_{i>j} / t_{j+1}), with t_j = sum_{i >= j} p_i: nothing cancels.
    """
    tail = p.flip(-1).cumsum(-1).flip(-1)  # t_j
    first, rest = tail[..., :-1], tail[..., 1:]
    none = p.new_zeros(())
    scale = torch.where(first == 0, none, (p[..., :-1] * rest / first).sqrt())
    below = torch.where((rest == 0)[..., None, :], none, p[..., :, None] / rest[..., None, :])
    identity = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)[:, :-1]
    return (identity - below.tril(-1)) * scale[..., None, :]


def _by_row(target: Target, tensor: Tensor, classes: int, apart: int) -> Tensor:
    """[N, rows, classes]."""
    rows = target.gather(tensor)
    return rows.reshape(len(rows), -1, classes, apart).transpose(2, 3).flatten(1, 2)
