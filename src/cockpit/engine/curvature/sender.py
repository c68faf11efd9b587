"""Send many gradients at once back through autograd's graph, operation by operation.

Autograd sends one gradient at a time, or many, and then keeps everything that was asked for until the end. Here what
arrives at a wanted operation is handed out at once and then let go. A gradient has one more axis in front, the columns;
each operation's own backward takes all of them in one call, or where it cannot, one after the other.
"""

from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Graph, Node, edge, family, shapes

Place = tuple[Node, int]  # an operation and which of its results
Grads = tuple[Tensor | None, ...]


class Sender:
    """The ways from some results down to wanted operations; ``looped`` remembers what takes columns one by one."""

    def __init__(self, tops: Sequence[Place], wanted: Collection[Node], looped: set[str]) -> None:
        self._tops, self._wanted, self._looped = list(tops), dict.fromkeys(wanted), looped
        self._operands = _operands([node for node, _ in tops], self._wanted)
        metas = [meta for node in self._operands for meta in node._input_metadata]
        self._sizes = [prod(meta.shape) * meta.dtype.itemsize for meta in metas]

    @property
    def largest(self) -> int:
        """Bytes of the largest gradient of one column."""
        return max(self._sizes, default=1)

    @property
    def whole(self) -> int:
        """Bytes of the gradients of one column at all operations."""
        return sum(self._sizes)

    def __call__(self, seeds: Sequence[Tensor]) -> Iterator[tuple[Node, Grads]]:
        """Send seeds, [columns, ...] for each top; yield what arrives at the wanted operations."""
        ready: dict[Place, Tensor] = {}
        for top, seed in zip(self._tops, seeds, strict=True):
            _add(ready, top, seed)
        for node, operands in self._operands.items():
            grads = tuple([ready.pop((node, result), None) for result in range(len(shapes(node)))])
            if all(grad is None for grad in grads):
                continue
            if node in self._wanted:
                yield node, grads
            for place, sent in zip(operands, self._through(node, grads), strict=True):
                if sent is not None:
                    _add(ready, place, sent)
            del grads

    def by_autograd(self, seeds: Sequence[Tensor]) -> Iterator[tuple[Node, Grads]]:
        """Send them one by one all the way through autograd, hooks and all."""
        places = [(node, result) for node in self._wanted for result in range(len(shapes(node)))]
        above, below = [edge(*top) for top in self._tops], [edge(*place) for place in places]
        for column in range(len(seeds[0])):
            sent = _autograd(above, below, [seed[column] for seed in seeds], batched=False)
            arrived = dict(zip(places, sent, strict=True))
            for node in self._wanted:
                grads = [arrived[node, result] for result in range(len(shapes(node)))]
                if any(grad is not None for grad in grads):
                    yield node, tuple([None if grad is None else grad[None] for grad in grads])

    def _through(self, node: Node, grads: Grads) -> Sequence[Tensor | None]:
        """Gradients of the operands of one operation."""
        below = [edge(*place) for place in self._operands[node]]
        if not below:
            return ()
        given = [grad for grad in grads if grad is not None]
        above = [edge(node, result) for result, grad in enumerate(grads) if grad is not None]
        alone = isinstance(node, torch.autograd.function.BackwardCFunction)
        return backward_of_columns(above, below, given, family(node), self._looped, alone)


def backward_of_columns(
    above: Sequence[Any],
    below: Sequence[Any],
    given: Sequence[Tensor],
    kind: str,
    looped: set[str],
    alone: bool = False,
) -> Sequence[Tensor | None]:
    """Gradients with the columns in front, through what can take them in one call or else, as ``looped`` remembers, one
    after the other; ``alone``: it is not even tried.
    """
    if kind not in looped and not alone:
        try:
            return _autograd(above, below, given, batched=True)
        except RuntimeError:  # no rule for a batch of columns, or a hook that cannot take one
            looped.add(kind)
    columns = [_autograd(above, below, [g[c] for g in given], batched=False) for c in range(len(given[0]))]
    return [_stacked(sent) for sent in zip(*columns, strict=True)]


def _operands(tops: list[Node], wanted: Collection[Node]) -> dict[Node, tuple[Place, ...]]:
    """Operations that lead to a wanted one, each after all that use it, and those of their operands that do."""
    graph = Graph(tops)
    useful = graph.above(wanted).union(wanted)
    return {
        node: tuple([place for place in dict.fromkeys(node.next_functions) if place[0] in useful])
        for node in reversed(graph.upwards)
        if node in useful
    }


def _add(ready: dict[Place, Tensor], place: Place, grad: Tensor) -> None:
    ready[place] = ready[place] + grad if place in ready else grad


def _autograd(
    above: Sequence[Any], below: Sequence[Any], given: Sequence[Tensor], batched: bool
) -> Sequence[Tensor | None]:
    return torch.autograd.grad(above, below, given, retain_graph=True, allow_unused=True, is_grads_batched=batched)


def _stacked(columns: Sequence[Tensor | None]) -> Tensor | None:
    there = [column for column in columns if column is not None]
    return torch.stack([torch.zeros_like(there[0]) if c is None else c for c in columns]) if there else None
