"""Send many gradients at once back through autograd's graph.

Autograd sends one gradient at a time, or many through ``vmap``, which has no rule for some operations (max-pooling) and
keeps everything that was asked for until the end. Here a gradient has one more axis in front, the columns; common
operations take all columns in one call, every other one is asked of autograd, operation by operation. What arrives at a
wanted operation is handed out at once and then let go. Common operations also take a part of the samples: columns and
samples then need little memory at a time.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from cockpit.engine import native
from cockpit.engine.autograd.graph import Node, edge, family, shapes
from cockpit.engine.autograd.pull import KEEPS, RESHAPES
from cockpit.engine.filling import fill
from cockpit.engine.native.picked import listable
from cockpit.engine.scattered import Scattered, dense, picked
from cockpit.engine.windows import Windows

Arrived = Tensor | Scattered  # with the columns in front
Place = tuple[Node, int]  # an operation and which of its results
Grads = tuple[Arrived | None, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the samples: those in [begin, end) of ``total``."""

    begin: int
    end: int
    total: int

    def of(self, tensor: Tensor, axis: int = 0) -> Tensor:
        """Their share of a tensor along an axis that has as many entries for each sample."""
        each = tensor.shape[axis] // self.total
        return tensor.narrow(axis, self.begin * each, (self.end - self.begin) * each)

    def sized(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Their share of a shape."""
        return (shape[0] * (self.end - self.begin) // self.total, *shape[1:])


ALL = Part(0, 1, 1)


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on the way: how many results it has, which operands are asked for a gradient."""

    node: Node
    results: int
    wanted: bool
    operands: tuple[tuple[int, Place], ...]  # (slot, where it comes from)
    rule: "Rule | None" = None  # takes all columns at once


class Sender:
    """The ways from some results down to wanted operations."""

    def __init__(self, tops: Sequence[Place], wanted: Collection[Node], looped: set[str]) -> None:
        self.tops, self._looped = list(tops), looped
        self.steps = _plan([node for node, _ in tops], set(wanted))

    @property
    def divisible(self) -> bool:
        """Whether a part of the samples can be sent alone, where each sample lies in one piece at the top."""
        return len(self.tops) == 1 and all(step.rule is not None or not step.operands for step in self.steps)

    def __call__(self, seeds: Sequence[Tensor], room: int, part: Part = ALL) -> Iterator[tuple[Node, Grads]]:
        """Send seeds, [columns, ...] for each top; yield what arrives at the wanted operations.

        ``room``: bytes of what is made beside the gradients themselves.
        """
        ready: dict[Place, Arrived] = {}
        for top, seed in zip(self.tops, seeds, strict=True):
            _add(ready, top, seed)
        for step in self.steps:
            grads = tuple([ready.pop((step.node, result), None) for result in range(step.results)])
            if all(grad is None for grad in grads):
                continue
            if step.wanted:
                if step.operands and isinstance(grads[0], Scattered):
                    convolved = family(step.node) == "ConvolutionBackward"
                    fill(grads[0], room, convolved)  # here: who it is handed out to may read it beside what follows
                yield step.node, grads
            if step.operands:
                for place, grad in self._through(step, grads, room, part):
                    _add(ready, place, grad)
            del grads

    def _through(self, step: Step, grads: Grads, room: int, part: Part) -> Iterator[tuple[Place, Arrived]]:
        if step.rule is not None and grads[0] is not None:
            place = step.operands[0][1]
            yield place, step.rule(step.node, grads[0], part.sized(shapes(place[0])[place[1]]), part, room)
            return
        places = list(dict.fromkeys(place for _, place in step.operands))
        for place, found in zip(places, self._by_autograd(step.node, grads, places), strict=True):
            if found is not None:
                yield place, found

    def _by_autograd(self, node: Node, grads: Grads, places: list[Place]) -> list[Tensor | None]:
        """Autograd's own rule for one operation: all columns in one call, or where that fails one after the other."""
        given = [dense(grad) for grad in grads if grad is not None]
        above = [edge(node, result) for result, grad in enumerate(grads) if grad is not None]
        below = [edge(*place) for place in places]
        kind = family(node)
        if kind not in self._looped and not isinstance(node, torch.autograd.function.BackwardCFunction):
            try:
                return list(_autograd(above, below, given, batched=True))
            except RuntimeError:  # no rule for a batch of columns, or a hook that cannot take one
                self._looped.add(kind)
        columns = [_autograd(above, below, [g[c] for g in given], batched=False) for c in range(len(given[0]))]
        return [_stacked([column[k] for column in columns]) for k in range(len(places))]

    def by_autograd(self, seeds: Sequence[Tensor], wanted: Sequence[Node]) -> Iterator[tuple[Node, Grads]]:
        """The same, but every column goes all the way through autograd, hooks and all."""
        above = [edge(*top) for top in self.tops]
        places = [(node, result) for node in wanted for result in range(len(shapes(node)))]
        below = [edge(*place) for place in places]
        for column in range(len(seeds[0])):
            found = _autograd(above, below, [seed[column] for seed in seeds], batched=False)
            arrived = dict(zip(places, found, strict=True))
            for node in wanted:
                grads = [arrived[node, result] for result in range(len(shapes(node)))]
                if any(grad is not None for grad in grads):
                    yield node, tuple([None if grad is None else grad[None] for grad in grads])


def _plan(tops: list[Node], wanted: set[Node]) -> list[Step]:
    """The operations that lead to a wanted one, each after all that use it."""
    useful: dict[Node, bool] = {}
    order: list[Node] = []
    stack = [(top, False) for top in tops]
    while stack:
        node, done = stack.pop()
        if done:
            useful[node] = node in wanted or any(useful.get(below, False) for below, _ in node.next_functions)
            order.append(node)
        elif node not in useful:
            useful[node] = False
            stack.append((node, True))
            stack += [(below, False) for below, _ in node.next_functions if below is not None and below not in useful]
    return [_step(node, useful, wanted) for node in reversed(order) if useful[node]]


def _step(node: Node, useful: dict[Node, bool], wanted: set[Node]) -> Step:
    operands = tuple(
        [(slot, (below, result)) for slot, (below, result) in enumerate(node.next_functions) if useful.get(below)]
    )
    results = len(node._input_metadata)
    alone = len(operands) == 1 and results == 1
    return Step(node, results, node in wanted, operands, _rule_for(node, *operands[0]) if alone else None)


def _add(ready: dict[Place, Arrived], place: Place, grad: Arrived) -> None:
    ready[place] = dense(ready[place]) + dense(grad) if place in ready else grad


def _autograd(above: list[Any], below: list[Any], given: list[Tensor], batched: bool) -> Sequence[Tensor | None]:
    return torch.autograd.grad(above, below, given, retain_graph=True, allow_unused=True, is_grads_batched=batched)


def _stacked(columns: list[Tensor | None]) -> Tensor | None:
    there = [column for column in columns if column is not None]
    return torch.stack([torch.zeros_like(there[0]) if c is None else c for c in columns]) if there else None


# ---- rules: (operation, gradients of its result, shape of its operand, samples, room) -> gradients of its operand

Rule = Callable[[Node, Arrived, tuple[int, ...], Part, int], Arrived]


def _rule_for(node: Node, slot: int, place: Place) -> Rule | None:
    kind = family(node)
    if kind in ("AddmmBackward", "MmBackward"):
        return _linear if slot == (1 if kind == "AddmmBackward" else 0) and node._saved_mat2 is not None else None
    if kind == "ConvolutionBackward":
        return _convolution if slot == 0 else None
    if kind == "ReluBackward":
        return _relu
    if kind == "MaxPool2DWithIndicesBackward":
        return _max_pool if len(shapes(node)[0]) == 4 else None
    if kind in RESHAPES:
        return _reshape
    below = place[0]._input_metadata[place[1]]
    own = node._input_metadata[0]
    return _reshape if kind in KEEPS and (below.dtype, below.shape) == (own.dtype, own.shape) else None


def _linear(node: Node, grad: Arrived, shape: tuple[int, ...], part: Part, room: int) -> Arrived:
    """``self + mat1 @ mat2``: to the left factor, which holds the batch."""
    rows = dense(grad)
    sent: Tensor = (rows.flatten(0, 1) @ node._saved_mat2.mT).view(len(grad), *shape)
    return sent * node._saved_alpha if getattr(node, "_saved_alpha", 1) != 1 else sent


def _convolution(node: Node, grad: Arrived, shape: tuple[int, ...], part: Part, room: int) -> Arrived:
    """Columns beside samples are a larger batch."""
    if isinstance(grad, Scattered) and _passes_over_zeros(node, grad):
        picks = picked(grad, shape, Windows.of(node))
        return picks.grid.signal(picks.back(picks.grid.rows(node._saved_weight), grad.value)).movedim(1, 0)
    columns, result = len(grad), part.sized(shapes(node)[0])
    each = (prod(result) + prod(shape)) * grad.dtype.itemsize
    step = max(1, min(columns, room // each))
    if step == columns:
        return _convolved_back(node, dense(grad), shape)
    sent: Tensor | None = None
    for begin in range(0, columns, step):
        found = _convolved_back(node, dense(grad, begin, begin + step), shape)
        sent = found.new_empty(columns, *shape) if sent is None else sent
        sent[begin : begin + step] = found
    assert sent is not None
    return sent


def _passes_over_zeros(node: Node, grad: Scattered) -> bool:
    plain = not node._saved_transposed and node._saved_groups == 1 and listable(grad.index.shape)
    return plain and native.usable(node._saved_weight, grad.value)


def _convolved_back(node: Node, grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    batch = grad.flatten(0, 1)
    inputs = batch.new_empty(1).expand(len(batch), *shape[1:])  # of which only the shape is read
    sent: Tensor = torch.ops.aten.convolution_backward(
        batch,
        inputs,
        node._saved_weight,
        None,
        node._saved_stride,
        node._saved_padding,
        node._saved_dilation,
        node._saved_transposed,
        node._saved_output_padding,
        node._saved_groups,
        [True, False, False],
    )[0]
    return sent.view(len(grad), *shape)


def _relu(node: Node, grad: Arrived, shape: tuple[int, ...], part: Part, room: int) -> Arrived:
    result = part.of(node._saved_result)
    if isinstance(grad, Scattered):
        return grad.where_positive(result)
    sent: Tensor = torch.ops.aten.threshold_backward(grad, result, 0)
    return sent


def _max_pool(node: Node, grad: Arrived, shape: tuple[int, ...], part: Part, room: int) -> Arrived:
    """The gradient of each window goes to one position: where to is remembered instead of filling in the zeros."""
    return Scattered.of(dense(grad), part.of(node._saved_result1), shape, Windows.of_pooling(node))


def _reshape(node: Node, grad: Arrived, shape: tuple[int, ...], part: Part, room: int) -> Arrived:
    return grad if isinstance(grad, Scattered) and grad.shape == shape else dense(grad).reshape(len(grad), *shape)
