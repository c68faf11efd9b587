"""Sums of squared per-sample gradients over many columns: the diagonal of S^T S for the columns S of a matrix.

What arrives at an operation has the columns in front: [K, ...]. All columns meet the same inputs, which is used where
the operation is a linear layer or a convolution; any other rule runs once for all columns, or column by column.
"""

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from cockpit.engine import form_statistics as statistics
from cockpit.engine.autograd.graph import Node, Path, family, shapes, signed
from cockpit.engine.autograd.pull import KEEPS, RESHAPES, gradient_of
from cockpit.engine.batched_forms import Many, forms_of
from cockpit.engine.conv_squares import Convolution, by_loop, sum_of_squares
from cockpit.engine.placement import Placements
from cockpit.engine.scattered import Scattered, dense
from cockpit.engine.sending import ALL, Arrived, Grads, Part
from cockpit.layers import combine
from cockpit.layers.forms import scale, wide, wide_type
from cockpit.layers.layout import Layout

LINEAR = {"AddmmBackward": ("_saved_mat1", 0, 2), "MmBackward": ("_saved_self", None, 1)}  # input, bias, weight
CONVOLUTION, WEIGHT, BIAS = "ConvolutionBackward", 1, 2
TURNS = frozenset({"TBackward", "TransposeBackward"})

Use = tuple[Path, Grads]


class Squares:
    """Adds up squares, parameter by parameter, as gradients arrive."""

    def __init__(self, parameters: Mapping[str, Tensor], paths: Sequence[Path], placed: Placements, room: int) -> None:
        self._parameters, self._placed, self._room = parameters, placed, room
        self._sums: dict[str, Tensor] = {}
        self._by_node: dict[Node, list[Path]] = {}
        self._uses: dict[str, int] = {}
        for path in paths:
            self._by_node.setdefault(path.node, []).append(path)
            self._uses[path.name] = self._uses.get(path.name, 0) + 1
        self._direct = {(path.name, path.node) for path in paths if self._is_direct(path)}
        self._waiting: dict[str, list[Use]] = {}  # parameters that are used more than once
        self._signs: Tensor | None = None
        self._part = ALL

    @property
    def divisible(self) -> bool:
        """Whether the squares of a part of the samples can be added alone."""
        return all((path.name, node) in self._direct for node, paths in self._by_node.items() for path in paths)

    def _is_direct(self, path: Path) -> bool:
        layout = self._placed.nodes[path.node][0]
        return self._uses[path.name] == 1 and layout is not None and is_direct(path, layout)

    def begin(self, signs: Tensor | None, part: Part = ALL) -> None:
        """Columns with these signs, [K, N], are about to arrive; None: all positive. Of some samples, or of all."""
        self._signs = signs if signs is None else part.of(signs, 1)
        self._part = part

    def add(self, node: Node, grads: Grads) -> None:
        """What arrived at an operation."""
        layout = self._placed.nodes[node][0]
        layer = Layer(node, grads[0], layout, self._part, self._signs, self._room)
        for path in self._by_node[node]:
            if (path.name, node) in self._direct:
                self._sum(path.name, along(path, layer.squares(path.slot)))
            elif self._uses[path.name] == 1:
                self._sum(path.name, self._squares([(path, grads)]))
            else:
                self._waiting.setdefault(path.name, []).append((path, grads))

    def end(self) -> None:
        """The columns have arrived everywhere."""
        for name, uses in self._waiting.items():
            self._sum(name, self._squares(uses))
        self._waiting.clear()

    def sums(self) -> dict[str, Tensor]:
        """The sum over all columns and samples, for each parameter."""
        return self._sums

    def _sum(self, name: str, found: Tensor) -> None:
        shaped = found.reshape(self._parameters[name].shape)
        self._sums[name] = self._sums[name].add_(shaped) if name in self._sums else shaped

    def _squares(self, uses: list[Use]) -> Tensor:
        nodes = self._placed.nodes
        many = forms_of([(path, grads, nodes[path.node]) for path, grads in uses])
        return self._one_by_one(uses) if many is None else _of_many(many, self._signs, self._room)

    def _one_by_one(self, uses: list[Use]) -> Tensor:
        """Column by column, positive and negative samples apart."""
        name, nodes = uses[0][0].name, self._placed.nodes
        total = torch.zeros_like(self._parameters[name], dtype=wide_type(self._parameters[name].dtype))
        given = [(path, [None if g is None else dense(g) for g in grads], nodes[path.node]) for path, grads in uses]
        columns = next(len(g) for _, grads, _ in given for g in grads if g is not None)
        for c in range(columns):
            for sign in (1,) if self._signs is None else (1, -1):
                forms = []
                for path, grads, layouts in given:
                    chosen = tuple(
                        [_chosen(g, layout, self._signs, c, sign) for g, layout in zip(grads, layouts, strict=True)]
                    )
                    forms.append(gradient_of(path, chosen, layouts))
                wanted = statistics.Wanted(sum_sq=True)
                found = statistics.compute(scale(combine(forms), 1.0), self._parameters[name], wanted, {}).sum_sq
                assert found is not None
                total.add_(found.reshape(total.shape), alpha=sign)
        return total


def is_direct(path: Path, layout: Layout) -> bool:
    """Whether :class:`Layer` knows the operation, and its samples lie there as it expects."""
    node, kind, shape = path.node, family(path.node), shapes(path.node)[0]
    if not rearranged(path) or layout.samples * layout.inner != prod(shape):
        return False
    if kind == CONVOLUTION:
        return not node._saved_transposed and shape[0] == layout.samples and path.slot in (WEIGHT, BIAS)
    if kind not in LINEAR or not layout.in_rows_of(shape[1]):
        return False
    plain = kind == "MmBackward" or (node._saved_alpha == 1 and node._saved_beta == 1)
    _, bias, weight = LINEAR[kind]
    return plain and (path.slot == weight or (path.slot == bias and path.shape == shape[1:]))


class Layer:
    """A linear layer or a convolution: all columns meet the same inputs."""

    def __init__(
        self, node: Node, grad: Arrived | None, layout: Layout | None, part: Part, signs: Tensor | None, room: int
    ) -> None:
        self._node, self._grad, self._layout, self._part = node, grad, layout, part
        self._signs, self._room = signs, room
        self._of_rows: Tensor | None = None
        self._of_both: tuple[Tensor, Tensor] | None = None

    def squares(self, slot: int) -> Tensor:
        """Of the operand ``slot``, in its shape."""
        assert self._grad is not None
        if family(self._node) == CONVOLUTION:
            return self._convolution(slot, self._grad)
        return self._linear(slot, dense(self._grad))

    def _linear(self, slot: int, grad: Tensor) -> Tensor:
        saved, bias, _ = LINEAR[family(self._node)]
        assert self._layout is not None
        columns, positions = len(grad), self._layout.inner // grad.shape[2]
        rows = wide(grad).reshape(columns, -1, positions, grad.shape[2])  # [K, N, T, O]
        if slot == bias:
            return self._summed(rows).sum(0)
        inputs = wide(self._part.of(getattr(self._node, saved).detach()))
        if positions > 1:
            col = inputs.reshape(rows.shape[1], positions, -1)
            return products_squared(rows, col, self._signs, self._room).mT
        return (self._summed(rows).mT @ inputs.square()).mT  # the parameter itself is the other way round

    def _summed(self, rows: Tensor) -> Tensor:
        """Squares of the sums over positions, summed over columns: [N, O]."""
        if self._of_rows is None:
            summed = rows.sum(2) if rows.shape[2] > 1 else rows[:, :, 0]
            self._of_rows = _signed(summed.square(), self._signs).sum(0)
        return self._of_rows

    def _convolution(self, slot: int, grad: Arrived) -> Tensor:
        if self._of_both is not None:
            return self._of_both[slot - WEIGHT]
        conv = Convolution.of(self._node, self._part)
        self._of_both = by_loop(conv, grad, self._signs)
        if self._of_both is not None:
            return self._of_both[slot - WEIGHT]
        if slot == BIAS:
            values = grad.values() if isinstance(grad, Scattered) else grad.flatten(3)
            return _signed(wide(values).sum(3).square(), self._signs).sum((0, 1))
        return sum_of_squares(conv, grad, self._signs, shapes(self._node)[0][1], self._room)


def rearranged(path: Path) -> bool:
    """Whether the operand is the parameter itself but for the order of its elements."""
    return all(family(link.node) in KEEPS | RESHAPES | TURNS for link in path.chain)


def along(path: Path, squares: Tensor) -> Tensor:
    """From the operand down to the parameter."""
    for link, shape in zip(path.chain, path.below, strict=True):
        if family(link.node) in TURNS:
            squares = squares.transpose(*turned_axes(link.node))
        squares = squares.reshape(shape)
    return squares


def turned_axes(node: Node) -> tuple[int, int]:
    """The two axes that a transposition exchanges."""
    if family(node) == "TBackward":
        return 0, 1
    return signed(node._saved_dim0), signed(node._saved_dim1)


def _signed(squares: Tensor, signs: Tensor | None) -> Tensor:
    """[K, N, ...] times [K, N]."""
    if signs is None:
        return squares
    return squares.mul_(signs.to(squares.dtype).reshape(*signs.shape, *[1] * (squares.dim() - 2)))


def products_squared(rows: Tensor, col: Tensor, signs: Tensor | None, room: int) -> Tensor:
    """Squares of row^T col, [K, N, T, O] and [N, T, I], summed over columns and samples: [O, I]."""
    columns, samples, positions, height = rows.shape
    each = columns * height * (positions + col.shape[2])
    step = max(1, min(samples, room // wide(rows[:0]).dtype.itemsize // each))
    total = col.new_zeros(height, col.shape[2])
    for begin in range(0, samples, step):
        part = wide(rows[:, begin : begin + step]).permute(1, 0, 3, 2)  # [n, K, O, T]
        formed = torch.bmm(part.reshape(len(part), -1, positions), col[begin : begin + step])
        squares = formed.square_().view(len(part), columns, height, -1)
        if signs is None:
            total += squares.sum((0, 1))
        else:
            weights = signs[:, begin : begin + step].mT.to(squares.dtype)
            total += torch.einsum("nk,nkoi->oi", weights, squares)
    return total


def _of_many(many: Many, signs: Tensor | None, room: int) -> Tensor:
    if many.col is None:
        return _signed(wide(many.row).square(), signs).sum((0, 1))
    found = [
        products_squared(row, col, signs, room)
        for row, col in zip(many.row.unbind(2), wide(many.col).unbind(1), strict=True)
    ]
    squares = torch.stack([part.mT if many.turned else part for part in found])  # [G, O, I]
    return squares * many.factor**2


def _chosen(grad: Tensor | None, layout: Layout | None, signs: Tensor | None, column: int, sign: int) -> Tensor | None:
    """One column, only the samples of one sign."""
    if grad is None or layout is None or signs is None:
        return None if grad is None else grad[column]
    kept = signs[column] == sign
    split = layout.split(grad[column])
    return torch.where(kept[:, None], split, split.new_zeros(())).reshape(grad[column].shape)
