"""Autograd's own graph, read backwards: from each parameter up to the operations that use it on a batch.

No module is hooked and no forward pass repeated: custom modules, functional calls, tied weights and layers used twice
are all just operations that share a leaf.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.checkpointed import recomputed

Node = Any  # torch.autograd.graph.Node: its saved values have no static types

# One operand, one result, no other data: on a parameter the result is still the parameter, rearranged.
REARRANGES = frozenset(
    f"{name}Backward"
    for name in (
        "T", "Transpose", "Permute", "View", "UnsafeView", "ReshapeAlias", "Unsqueeze", "Squeeze", "ToCopy", "Clone",
        "Alias", "Split", "SplitWithSizes", "UnsafeSplit", "Unbind", "Slice", "Select", "Narrow", "Contiguous",
    )
)  # fmt: skip

_probe = torch.zeros(1, dtype=torch.float32, device="cpu", requires_grad=True)
_LEAF = type((_probe * 2).grad_fn.next_functions[0][0])  # type: ignore[union-attr]
_UNNAMED = "CppFunction"  # the class of nodes that have none of their own


def family(node: Node) -> str:
    """Name of a node without its overload number: ``AddmmBackward``."""
    name: str = node.name()
    return name.rsplit("::", 1)[-1].rstrip("0123456789")


def shapes(node: Node) -> list[tuple[int, ...]]:
    """Shapes of the results of the operation."""
    found = node._input_metadata
    if any(meta.is_nested_tensor for meta in found):
        raise Undefined("nested tensors are not supported: pad them, torch.nested.to_padded_tensor(x, 0.0)")
    return [tuple(meta.shape) for meta in found]


def operand_shape(node: Node, slot: int) -> tuple[int, ...]:
    """Shape of an operand that is a result itself."""
    operand, output = node.next_functions[slot]
    shape: tuple[int, ...] = shapes(operand)[output]
    return shape


def run_backward(node: Node, grads: Iterable[Tensor | None]) -> Sequence[Tensor | None]:
    """Gradients of the operands by the operation's own backward, in its precision and without anyone's hooks."""
    filled = [None if g is None else g.to(meta.dtype) for g, meta in zip(grads, node._input_metadata, strict=True)]
    sent = node(*filled) if callable(node) else node.apply(*filled)  # a custom autograd.Function is not callable
    return sent if isinstance(sent, tuple) else (sent,)


@dataclass(frozen=True, slots=True)
class Link:
    """A node on the way down to the parameter: its result ``output`` is used above, its operand ``slot`` leads on."""

    node: Node
    slot: int
    output: int


@dataclass(frozen=True, slots=True)
class Path:
    """From an operation on the batch (``node``, operand ``slot``) down to a parameter through ``chain``."""

    name: str
    node: Node
    slot: int
    chain: tuple[Link, ...]  # from the operand down to the parameter


@dataclass(frozen=True, slots=True)
class Result:
    """A tensor of the graph, without the tensor."""

    node: Node
    output: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: Tensor) -> "Result":
        """Describe a tensor that has a graph."""
        return cls(tensor.grad_fn, tensor.output_nr, tuple(tensor.shape), tensor.dtype, tensor.device)

    @classmethod
    def at(cls, node: Node, output: int = 0) -> "Result":
        """Describe a result of an operation."""
        meta = node._input_metadata[output]
        return cls(node, output, tuple(meta.shape), meta.dtype, meta.device)


class Graph:
    """The nodes under a root, and for each node who uses it."""

    def __init__(self, roots: Iterable[Node], known: Container[int] | None = None) -> None:
        """``known``: ids of the leaves that are told apart; None: all (inputs may be other ones at every step)."""
        self.nodes: dict[Node, int] = {}  # node -> place in the walk
        self.leaves: dict[int, Node] = {}  # id of a parameter -> its AccumulateGrad
        self._signature: list[Any] = []
        nodes, note, pending = self.nodes, self._signature.append, list(roots)
        while pending:  # on every tracked step: kept short
            node = pending.pop()
            place = nodes.get(node)
            if place is not None:
                note(place)
                continue
            nodes[node] = len(nodes)
            kind = type(node)
            if kind is _LEAF:
                variable = node.variable
                self.leaves[id(variable)] = node
                note(id(variable) if known is None or id(variable) in known else 0)
                continue
            note(kind if kind.__name__ != _UNNAMED else node.name())
            for operand, output in node.next_functions:
                note(output if operand is not None else None)
                if operand is not None:
                    pending.append(operand)

    @cached_property
    def users(self) -> dict[Node, list[tuple[Node, int, int]]]:
        """For each node (user, operand of the user, result of the node)."""
        found: dict[Node, list[tuple[Node, int, int]]] = {}
        for node in self.nodes:
            for slot, (operand, output) in enumerate(node.next_functions):
                if operand is not None:
                    found.setdefault(operand, []).append((node, slot, output))
        return found

    @cached_property
    def signature(self) -> tuple[Any, ...]:
        """Operations, edges and parameters: equal for two graphs that differ in shapes and values only."""
        return tuple(self._signature)

    @cached_property
    def half(self) -> torch.dtype | None:
        """Half precision anywhere in the graph."""
        dtypes = (meta.dtype for node in self.nodes for meta in node._input_metadata)
        return next((dtype for dtype in dtypes if dtype in (torch.float16, torch.bfloat16)), None)

    def __contains__(self, node: Node) -> bool:
        return node in self.nodes

    @cached_property
    def upwards(self) -> list[Node]:
        """All nodes, each after its operands."""
        order: list[Node] = []
        done: set[Node] = set()
        for root in self.nodes:
            stack = [(root, False)]
            while stack:
                node, left = stack.pop()
                if left:
                    order.append(node)
                elif node not in done:
                    done.add(node)
                    stack.append((node, True))
                    stack += [(operand, False) for operand, _ in node.next_functions if operand is not None]
        return order

    def above(self, nodes: Iterable[Node]) -> frozenset[Node]:
        """Nodes that are computed from any of these, which need not be among them."""
        reached, below = set[Node](), set(nodes)
        for node in self.upwards:
            if any(operand in below or operand in reached for operand, _ in node.next_functions):
                reached.add(node)
        return frozenset(reached)

    def below(self, nodes: Iterable[Node]) -> frozenset[Node]:
        """Nodes that these are computed from, and these."""
        seen, pending = set[Node](), list(nodes)
        while pending:
            node = pending.pop()
            if node is not None and node not in seen:
                seen.add(node)
                pending += [operand for operand, _ in node.next_functions]
        return frozenset(seen)

    def find(self, names: frozenset[str]) -> list[Node]:
        """Return the nodes of the given families."""
        return [node for node in self.nodes if family(node) in names]

    def checkpointed(self) -> bool:
        """Whether a part of the forward pass is recomputed during backward (``torch.utils.checkpoint``)."""
        return any(family(node) == "CheckpointFunctionBackward" or recomputed(node) for node in self.nodes)


def edge(node: Node, output: int = 0) -> torch.autograd.graph.GradientEdge:
    """The result ``output`` of an operation, as a place where gradients can be asked for."""
    return torch.autograd.graph.GradientEdge(node, output)


def signed(number: int) -> int:
    """Nodes give a negative number as if it had no sign."""
    return number - 2**64 if number >= 2**63 else number
