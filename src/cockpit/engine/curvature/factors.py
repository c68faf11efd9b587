"""Factors of the Hessian of a loss with respect to the network's outputs: H_n = sum_k sign_k s_k s_k^T for sample n.

Everything here is in double precision; N samples, C outputs of a sample, K columns.
"""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import pad

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.placement import Source

MAX_COLUMNS = 1024  # outputs per sample for which the exact factor is formed
CERTAIN = 1e-14  # of what a prediction leaves to the other classes
NOT_FINITE = "the curvature of the loss is not finite"
NOT_CONVEX = "the loss is not convex in the network's output; use curvature='ggn' or 'hutchinson'"


Seeds = tuple[tuple[Source, ...], list[Tensor]]  # results, and gradients [columns, *shape] that are sent from them


@dataclass(frozen=True, slots=True)
class Columns:
    """k columns for each of B blocks of c outputs of a sample: K = k B in all, C = B c."""

    targets: tuple[Source, ...]
    blocks: Tensor  # [k, N, B, c]
    signs: Tensor | None = None  # [k, N, B]: 1, -1, or 0 for a column of zeros; None: no column is negative
    apart: int = 1  # in a sample the outputs of a block are so far from each other

    def __len__(self) -> int:
        return self.blocks.shape[0] * self.blocks.shape[2]

    @property
    def samples(self) -> int:
        """N."""
        return self.blocks.shape[1]

    def rows(self, begin: int, end: int) -> Tensor:
        """Columns [begin, end): [columns, N, C]."""
        each, _, blocks, _ = self.blocks.shape
        chosen = self.blocks.permute(2, 0, 1, 3).flatten(0, 1)[begin:end, :, None]  # [columns, N, 1, c]
        if blocks > 1:
            here = torch.arange(begin, end, device=chosen.device) // each
            chosen = chosen * torch.eye(blocks, dtype=chosen.dtype, device=chosen.device)[here][:, None, :, None]
        return _one_by_one(chosen, self.apart)

    def signs_of(self, begin: int, end: int) -> Tensor | None:
        """[columns, N]."""
        return None if self.signs is None else self.signs.permute(2, 0, 1).flatten(0, 1)[begin:end]

    def seeds(self, rows: Tensor) -> list[Tensor]:
        """[columns, N, C] -> gradients of the targets, [columns, *shape]."""
        parts = rows.split([target.size for target in self.targets], dim=2)
        return [target.spread(part) for target, part in zip(self.targets, parts, strict=True)]

    def columns(self) -> "Columns":
        """Itself: refuse what is not finite, leave out columns of zeros."""
        if not bool(torch.isfinite(self.blocks).all()):
            raise Undefined(NOT_FINITE)
        blocks, signs = self.blocks, self.signs
        if signs is not None and signs.shape[2] == 1:
            kept = (signs != 0).flatten(1).any(1)
            blocks, signs = blocks[kept], signs[kept]
        if signs is not None and not bool((signs < 0).any()):
            signs = None
        return Columns(self.targets, blocks, signs, self.apart)

    def mixed(self, generator: torch.Generator) -> Seeds:
        """sum_k +-s_k for each sample: on average its squares are those of all columns.

        Raises :class:`Undefined` where a column is negative.
        """
        whole = self.columns()
        if whole.signs is not None:
            raise Undefined(NOT_CONVEX)
        each, samples, blocks, _ = whole.blocks.shape
        mix = random_signs((each, samples, blocks), whole.blocks, generator)
        rows = (whole.blocks * mix[..., None]).sum(0)  # [N, B, c]
        return self.targets, whole.seeds(_one_by_one(rows, self.apart)[None])


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A loss that is a sum over elements of the target: its Hessian is diagonal."""

    target: Source
    gradient: Tensor  # like the target
    diagonal: Tensor  # like the target
    arrived: Tensor  # gradient with respect to the losses, or to their mean or sum

    def columns(self) -> Columns:
        """One for each output of a sample."""
        refuse_many(self.target.size)
        return self._columns().columns()

    def mixed(self, generator: torch.Generator) -> Seeds:
        """One random mixture of each sample's columns: of any number of outputs."""
        return self._columns().mixed(generator)

    def _columns(self) -> Columns:
        rows = self.target.gather(self.diagonal)
        return Columns((self.target,), rows.abs().sqrt()[None, :, :, None], rows.sign()[None])

    @property
    def scale(self) -> float:
        """Length of the terms of which the slope is made: they may nearly cancel."""
        return float(self.arrived.double().norm())

    @property
    def certain(self) -> bool:
        """Whether slope and curvature are nothing but rounding errors beside what they are made of."""
        largest = torch.stack([self.gradient.abs().max(), self.diagonal.abs().max()]).max()
        each = self.arrived.abs().max() / (1 if self.arrived.dim() else self.gradient.numel())
        return bool(largest <= CERTAIN * each)

    def slope(self) -> Tensor:
        """Gradient of L with respect to the target."""
        return self.gradient.to(self.target.dtype)

    def product(self, vector: Tensor) -> Tensor:
        """The Hessian of L with respect to the target, times a vector."""
        return (self.diagonal * vector).to(self.target.dtype)


@dataclass(frozen=True, slots=True)
class Softmax:
    """L = sum_rc G_rc log p_rc with constant G: each row r has the Hessian -sum_c G_rc (diag p - p p^T).

    Where a probability is near one, what is left is summed from the others: 1 - p would have no digits.
    """

    target: Source
    dim: int  # axis of the classes
    log_p: Tensor  # like the target
    slopes: Tensor  # G

    @property
    def _apart(self) -> int:
        """How far the classes of a row are from each other among the outputs of a sample."""
        layout, shape, after = self.target.layout, self.target.shape, prod(self.target.shape[self.dim + 1 :])
        if layout.inner % (shape[self.dim] * after) == 0:
            return after
        if after % (layout.samples * layout.inner) == 0:
            return after // layout.samples
        raise Undefined("the loss couples the samples: its softmax is over several of them; use curvature='hutchinson'")

    def columns(self) -> Columns:
        """Of its Cholesky factor, one less than classes for each row."""
        refuse_many(self.target.size)
        blocks = cholesky_of_softmax(self._by_row(self._p())) * self._weights().abs().sqrt()[..., None, None]
        signs = self._weights().sign().expand(blocks.shape[-1], *blocks.shape[:2])
        return Columns((self.target,), blocks.permute(3, 0, 1, 2), signs, self._apart).columns()

    def mixed(self, generator: torch.Generator) -> Seeds:
        """One random mixture of each sample's columns: of any number of classes."""
        weights = self._weights()
        if bool((weights < 0).any()):
            raise Undefined(NOT_CONVEX)
        p = self._by_row(self._p())
        rows = mixed_cholesky(p, random_signs(p.shape, p, generator)) * weights.sqrt()[..., None]
        if not bool(torch.isfinite(rows).all()):
            raise Undefined(NOT_FINITE)
        return (self.target,), [self.target.spread(_one_by_one(rows, self._apart)[None])]

    @property
    def scale(self) -> float:
        """Length of the terms of which the slope is made: they may nearly cancel."""
        return float(self.slopes.norm())

    @property
    def certain(self) -> bool:
        """Whether slope and curvature are nothing but rounding errors beside what they are made of."""
        weights = self.slopes.sum(self.dim, keepdim=True).abs()
        rest = self._rest(self._p()).amin(self.dim, keepdim=True)
        return bool((weights * rest).max() <= CERTAIN * weights.max())

    def slope(self) -> Tensor:
        """Gradient of L with respect to the target: sum_d (G_c p_d - p_c G_d)."""
        p, slopes = self._p(), self.slopes.double()
        rest = slopes.sum(self.dim, keepdim=True) - slopes
        return (slopes * self._rest(p) - p * rest).to(self.target.dtype)

    def product(self, vector: Tensor) -> Tensor:
        """The Hessian of L with respect to the target, times a vector: p (v - <p, v>), from the likeliest class."""
        p, weight = self._p(), -self.slopes.double().sum(self.dim, keepdim=True)
        apart = vector.double() - vector.double().gather(self.dim, p.argmax(self.dim, keepdim=True))
        return (weight * p * (apart - (p * apart).sum(self.dim, keepdim=True))).to(self.target.dtype)

    def _p(self) -> Tensor:
        return self.log_p.double().softmax(self.dim)  # the rounding of a narrower softmax is undone

    def _rest(self, p: Tensor) -> Tensor:
        """1 - p."""
        top = p.argmax(self.dim, keepdim=True)
        others = p.scatter(self.dim, top, 0.0).sum(self.dim, keepdim=True)
        return (1 - p).scatter(self.dim, top, others)

    def _weights(self) -> Tensor:
        """[N, rows]."""
        return -self._by_row(self.slopes.double()).sum(2)

    def _by_row(self, tensor: Tensor) -> Tensor:
        """[N, rows, classes]."""
        rows = self.target.gather(tensor)
        split = rows.reshape(len(rows), -1, self.target.shape[self.dim], self._apart)
        return split.transpose(2, 3).flatten(1, 2)


def _one_by_one(blocks: Tensor, apart: int) -> Tensor:
    """The outputs of a sample from its blocks: [..., B, c] -> [..., C]."""
    split: Tensor = blocks.unflatten(-2, (-1, apart))
    return split.transpose(-2, -1).flatten(-3)


Closed = Elementwise | Softmax  # formulas that stay exact where the loss is saturated
Factor = Columns | Closed


def cholesky_of_softmax(p: Tensor) -> Tensor:
    """Factor diag p - p p^T = S S^T with one column less than classes: [..., C] -> [..., C, C - 1]."""
    units = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)[:-1]
    return mixed_cholesky(p[..., None, :], units).mT


def mixed_cholesky(p: Tensor, weights: Tensor) -> Tensor:
    """S w without forming S, for weights of which the last is not read: [..., C] -> [..., C].

    Column j of S is sqrt(p_j t_{j+1} / t_j) (e_j - p_{i>j} / t_{j+1}), with t_j = sum_{i >= j} p_i: nothing cancels.
    """
    tail = p.flip(-1).cumsum(-1).flip(-1)  # t_j
    first, rest = tail[..., :-1], tail[..., 1:]
    along = torch.where(first == 0, 0.0, (p[..., :-1] * rest / first).sqrt()) * weights[..., :-1]
    before = torch.where(rest == 0, 0.0, along / rest).cumsum(-1)
    return pad(along, (0, 1)) - p * pad(before, (1, 0))


def random_signs(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """1 or -1, in the precision and on the device of a tensor."""
    bits = torch.randint(0, 2, tuple(shape), generator=generator, device=generator.device)
    return (2 * bits - 1).to(like.device, like.dtype)


def refuse_many(outputs: int) -> None:
    """Raise where the exact factor would have too many columns."""
    if outputs > MAX_COLUMNS:
        raise Undefined(
            f"{outputs} outputs per sample: the exact GGN needs as many passes (limit {MAX_COLUMNS}); "
            "use curvature='ggn_mc' or 'hutchinson'"
        )
