"""Send many gradients at once back through autograd's graph, operation by operation.

Autograd sends one gradient at a time, or many, and then keeps everything that was asked for until the end. Here what
arrives at a wanted operation is handed out at once and then let go. A gradient has one more axis in front, the columns;
each operation's own backward takes all of them in one call, or where it cannot, one after the other.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Node, edge, family, shapes

Place = tuple[Node, int]  # an operation and which of its results
Grads = tuple[Tensor | None, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation on the way, and the results of others that it is computed from."""

    node: Node
    wanted: bool
    operands: tuple[Place, ...]


class Sender:
    """The ways from some results down to wanted operations; ``looped`` remembers what takes columns one by one."""

    def __init__(self, tops: Sequence[Place], wanted: Collection[Node], looped: set[str]) -> None:
        self._tops, self._wanted, self._looped = list(tops), list(wanted), looped
        self._steps = _plan([node for node, _ in tops], set(wanted))
        metas = [meta for step in self._steps for meta in step.node._input_metadata]
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
        for step in self._steps:
            grads = tuple([ready.pop((step.node, result), None) for result in range(len(shapes(step.node)))])
            if all(grad is None for grad in grads):
                continue
            if step.wanted:
                yield step.node, grads
            for place, sent in zip(step.operands, self._through(step, grads), strict=True):
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

    def _through(self, step: _Step, grads: Grads) -> Sequence[Tensor | None]:
        """Gradients of the operands of one operation."""
        if not step.operands:
            return ()
        given = [grad for grad in grads if grad is not None]
        above = [edge(step.node, result) for result, grad in enumerate(grads) if grad is not None]
        below = [edge(*place) for place in step.operands]
        alone = isinstance(step.node, torch.autograd.function.BackwardCFunction)
        return backward_of_columns(above, below, given, family(step.node), self._looped, alone)


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


def _plan(tops: list[Node], wanted: set[Node]) -> list[_Step]:
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
    return [
        _Step(node, node in wanted, tuple(at for at in dict.fromkeys(node.next_functions) if useful.get(at[0])))
        for node in reversed(order)
        if useful[node]
    ]


def _add(ready: dict[Place, Tensor], place: Place, grad: Tensor) -> None:
    ready[place] = ready[place] + grad if place in ready else grad


def _autograd(
    above: Sequence[Any], below: Sequence[Any], given: Sequence[Tensor], batched: bool
) -> Sequence[Tensor | None]:
    return torch.autograd.grad(above, below, given, retain_graph=True, allow_unused=True, is_grads_batched=batched)


def _stacked(columns: Sequence[Tensor | None]) -> Tensor | None:
    there = [column for column in columns if column is not None]
    return torch.stack([torch.zeros_like(there[0]) if c is None else c for c in columns]) if there else None
