"""Sums of squared per-sample gradients over many columns: the diagonal of S^T S for the columns S of a matrix.

What arrives at an operation has the columns in front: [K, ...]. All columns meet the same inputs, which is used where
the operation is a linear layer or a convolution; any other rule runs once for all columns, or column by column.
"""

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from cockpit.engine import statistics
from cockpit.engine.columns import Many, forms_of
from cockpit.engine.conv_squares import Convolution, sum_of_squares
from cockpit.engine.graph import Node, Path, family
from cockpit.engine.placement import Placements
from cockpit.engine.pull import KEEPS, RESHAPES, gradient_of
from cockpit.engine.scattered import Scattered, dense
from cockpit.engine.sending import Arrived, Grads
from cockpit.layers import combine
from cockpit.layers.forms import scale, wide
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
        self._waiting: dict[str, list[Use]] = {}  # parameters that are used more than once
        self._signs: Tensor | None = None

    def begin(self, signs: Tensor | None) -> None:
        """Columns with these signs, [K, N], are about to arrive; None: all positive."""
        self._signs = signs

    def add(self, node: Node, grads: Grads) -> None:
        """What arrived at an operation."""
        layouts, direct = self._placed.nodes[node], _Direct(node, grads, self._signs, self._room)
        for path in self._by_node[node]:
            if self._uses[path.name] == 1:
                found = direct.squares(path, layouts[0])
                self._sum(path.name, self._squares([(path, grads)]) if found is None else found)
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
        total = torch.zeros_like(self._parameters[name], dtype=wide(self._parameters[name][:0]).dtype)
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


class _Direct:
    """Linear layers and convolutions: all columns meet the same inputs."""

    def __init__(self, node: Node, grads: Grads, signs: Tensor | None, room: int) -> None:
        self._node, self._kind, self._grad = node, family(node), grads[0]
        self._signs, self._room = signs, room
        self._rows: Tensor | None = None

    def squares(self, path: Path, layout: Layout | None) -> Tensor | None:
        """In the shape of the parameter, or None where this does not cover the case."""
        if self._grad is None or layout is None or not rearranged(path):
            return None
        if self._kind in LINEAR:
            found = self._linear(path, layout, self._grad)
        elif self._kind == CONVOLUTION:
            found = self._convolution(path, layout, self._grad)
        else:
            return None
        return None if found is None else along(path, found)

    def _linear(self, path: Path, layout: Layout, grad: Arrived) -> Tensor | None:
        saved, bias, weight = LINEAR[self._kind]
        inputs, grad = getattr(self._node, saved), dense(grad)
        plain = self._kind == "MmBackward" or (self._node._saved_alpha == 1 and self._node._saved_beta == 1)
        width = grad.shape[2]
        if not plain or path.slot not in (bias, weight) or not layout.in_rows_of(width):
            return None
        rows = _rows(wide(grad), layout)  # [K, N, T, O]
        if path.slot == bias:
            if path.shape != (width,):
                return None
            return self._of_rows(rows.sum(2) if rows.shape[2] > 1 else rows[:, :, 0]).sum(0)
        within = Layout(layout.samples, layout.inner // width * inputs.shape[1])
        col = wide(within.rows(inputs.detach()))  # [N, T, I]
        if rows.shape[2] > 1:
            return products_squared(rows, col, self._signs, self._room).mT
        return col[:, 0].square().mT @ self._of_rows(rows[:, :, 0])

    def _of_rows(self, rows: Tensor) -> Tensor:
        """Squares of [K, N, O], summed over columns: [N, O]."""
        if self._rows is None:
            self._rows = _signed(rows.square(), self._signs).sum(0)
        return self._rows

    def _convolution(self, path: Path, layout: Layout, grad: Arrived) -> Tensor | None:
        images = tuple(self._node._input_metadata[0].shape)
        one_each = (layout.samples, layout.inner) == (images[0], prod(images[1:]))
        if not one_each or self._node._saved_transposed:
            return None
        if path.slot == BIAS:
            values = grad.values() if isinstance(grad, Scattered) else grad.flatten(3)
            return _signed(wide(values).sum(3).square(), self._signs).sum((0, 1))
        conv = Convolution.of(self._node, path.shape, images[2:])
        return sum_of_squares(conv, grad, self._signs, images[1], self._room)


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
    first, second = (dim - 2**64 if dim >= 2**63 else dim for dim in (node._saved_dim0, node._saved_dim1))
    return first, second  # a negative one is stored as if it had no sign


def _rows(grad: Tensor, layout: Layout) -> Tensor:
    """Group the rows of matrices [K, rows, O] by sample: [K, N, T, O]."""
    columns, _, width = grad.shape
    grouped = grad.reshape(columns, -1, layout.samples, layout.inner // width, width).transpose(1, 2)
    return grouped.reshape(columns, layout.samples, -1, width)


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
