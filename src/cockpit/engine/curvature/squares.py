"""Sums of squared per-sample gradients over many columns: the diagonal of S S^T for the columns S of a matrix.

What arrives at an operation has the columns in front: [K, ...]. A rule of ``layers`` makes a form of each column. Where
all columns meet the same inputs (linear layers, convolutions), they are squared together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Node, Path
from cockpit.engine.autograd.pull import gradient_of
from cockpit.engine.autograd.uses import Uses
from cockpit.engine.curvature.sender import Grads
from cockpit.layers.forms import AnyForm, Convolved, Factored, Form, Scratch, chunks, combine, wide, wide_type
from cockpit.layers.layout import Layout

Use = tuple[Path, Grads]


class Squares:
    """Adds up squares, parameter by parameter, as gradients arrive."""

    def __init__(self, parameters: Mapping[str, Tensor], uses: Uses, room: int) -> None:
        self._parameters, self._layouts, self._room = parameters, uses.layouts, room  # bytes of what is made at once
        self.sums: dict[str, Tensor] = {}  #: over all columns and samples, for each parameter
        self._by_node: dict[Node, list[Path]] = {}
        paths = uses.paths()
        self._uses = Counter(path.name for path in paths)
        for path in paths:
            self._by_node.setdefault(path.node, []).append(path)

    def add(self, arriving: Iterable[tuple[Node, Grads]], signs: Tensor | None) -> None:
        """What arrives at operations, of columns with these signs, [K, N]; None: all positive.

        A parameter is squared when all its uses are there, so that little is held.
        """
        waiting: dict[str, list[Use]] = {}
        for node, grads in arriving:
            for path in self._by_node[node]:
                waiting.setdefault(path.name, []).append((path, grads))
                if len(waiting[path.name]) == self._uses[path.name]:
                    self._square(path.name, waiting.pop(path.name), signs)
        for name, uses in waiting.items():
            self._square(name, uses, signs)

    def _square(self, name: str, uses: Sequence[Use], signs: Tensor | None) -> None:
        like = self._parameters[name]
        by_use = [_forms(path, grads, self._layouts[path.node]) for path, grads in uses]
        total = self.sums.setdefault(name, torch.zeros_like(like, dtype=wide_type(like.dtype)))
        shared = [_shared(forms) for forms in by_use]
        joined = _joined([part for part in shared if part is not None]) if None not in shared else None
        if joined is not None:
            total += joined.squares(signs, self._room).reshape(total.shape)
            return
        for column, forms in enumerate(zip(*by_use, strict=True)):
            weights = None if signs is None else signs[column]
            total += _squared(combine(list(forms)), weights, self._room).reshape(total.shape)


def _forms(path: Path, grads: Grads, layouts: tuple[Layout | None, ...]) -> list[Form]:
    """What each column contributes by one use of a parameter."""
    columns = next(len(grad) for grad in grads if grad is not None)
    each = [tuple([None if grad is None else grad[column] for grad in grads]) for column in range(columns)]
    return [gradient_of(path, given, layouts) for given in each]


@dataclass(frozen=True, slots=True)
class _Shared:
    """g_nk = factor * sum_t row_nkt col_nt^T for each group; k counts columns."""

    rows: Tensor  # [K, N, G, T, O]
    cols: Factored | Convolved  # of any column: of it only what is the same for all
    turned: bool = False  # g_nk = (row^T col)^T

    def squares(self, signs: Tensor | None, room: int) -> Tensor:
        """Summed over columns and samples: [G, O, I], or as the parameter lies."""
        columns, samples, groups, positions, height = self.rows.shape
        bytes_of, width = wide(self.rows[:0]).dtype.itemsize, self._width
        one = bytes_of * groups * (height * (width + positions) if positions > 1 else height)  # a column of a sample
        across = max(1, min(columns, room // one))
        step = max(1, min(samples, room // (one * across + bytes_of * groups * positions * width)))
        total = torch.zeros(groups, height, width, dtype=wide_type(self.rows.dtype), device=self.rows.device)
        scratch = Scratch()
        for begin in range(0, samples, step):
            here = slice(begin, min(samples, begin + step))
            col = self._col(here.start, here.stop, scratch)
            for first in range(0, columns, across):
                some = slice(first, first + across)
                weights = None if signs is None else signs[some, here]
                total += _products_squared(wide(self.rows[some, here]), col, weights)
        return (total.mT if self.turned else total) * self.cols.factor**2

    @property
    def _width(self) -> int:
        if isinstance(self.cols, Convolved):
            return prod(self.cols.shape[1:])
        return (self.cols.row if self.turned else self.cols.col).shape[3]

    def _col(self, begin: int, end: int, scratch: Scratch) -> Tensor:
        """[n, G, T, I]."""
        if isinstance(self.cols, Convolved):
            _, patches = self.cols.factors(begin, end, scratch)
            return patches.reshape(end - begin, self.cols.groups, *patches.shape[1:]).mT
        return wide((self.cols.row if self.turned else self.cols.col)[begin:end])


def _shared(forms: Sequence[Form]) -> _Shared | None:
    """Columns of one use as one product, where one of its factors is the same for all."""
    first = forms[0]
    if isinstance(first, Factored):
        parts = [form for form in forms if isinstance(form, Factored)]
        if all(_same(form.col, first.col) for form in parts):
            return _Shared(torch.stack([form.row for form in parts]), first)
        if all(_same(form.row, first.row) for form in parts):
            return _Shared(torch.stack([form.col for form in parts]), first, turned=True)
    if isinstance(first, Convolved):
        responses = [
            form.response for form in forms if isinstance(form, Convolved) and _same(form.signal, first.signal)
        ]
        if len(responses) == len(forms):
            rows = torch.stack(responses).transpose(2, 3)  # [K, N, O, images, *positions]
            split = rows.reshape(*rows.shape[:2], first.groups, -1, first.positions)
            return _Shared(split.mT, first)
    return None


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers in memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def _joined(parts: Sequence[_Shared]) -> _Shared | None:
    """Several uses of one parameter: more positions of one."""
    if len(parts) == 1:
        return parts[0]
    factored = [part.cols for part in parts if isinstance(part.cols, Factored)]
    alike = {(part.turned, part.cols.factor, part.rows.shape[2]) for part in parts}
    if len(factored) < len(parts) or len(alike) > 1:
        return None
    whole = combine([*factored])
    assert isinstance(whole, Factored)
    return _Shared(torch.cat([part.rows for part in parts], dim=3), whole, parts[0].turned)


def _products_squared(rows: Tensor, col: Tensor, signs: Tensor | None) -> Tensor:
    """Squares of row^T col, [K, N, G, T, O] and [N, G, T, I], summed over columns and samples: [G, O, I]."""
    if rows.shape[3] == 1:
        squares = rows[:, :, :, 0].square()
        of_rows = squares.sum(0) if signs is None else torch.einsum("kngo,kn->ngo", squares, signs.to(squares))
        return torch.einsum("ngo,ngi->goi", of_rows, col[:, :, 0].square())
    columns, samples, groups, positions, height = rows.shape
    left = rows.permute(1, 2, 0, 4, 3).reshape(samples * groups, columns * height, positions)
    squares = torch.bmm(left, col.reshape(samples * groups, positions, -1)).square_()
    split = squares.view(samples, groups, columns, height, -1)
    if signs is None:
        return split.sum((0, 2))
    return torch.einsum("ngkoi,kn->goi", split, signs.to(squares))


def _squared(form: AnyForm, weights: Tensor | None, room: int) -> Tensor:
    """The squares of g_n, weighted and summed over samples."""
    total = None
    for begin, g in chunks(form, limit=max(1, room // 8)):
        g = wide(g)
        given = g.new_ones(len(g)) if weights is None else weights[begin : begin + len(g)].to(g)
        part = given @ g.square()
        total = part if total is None else total.add_(part)
    assert total is not None
    return total
