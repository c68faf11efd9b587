"""Autograd's own graph, read backwards: from each parameter up to the operations that use it on a batch.

No module is hooked and no forward pass repeated: custom modules, functional calls, tied weights and layers used twice
are all just operations that share a leaf.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

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
MAX_VISITS = 20_000  # steps on the ways up from one parameter


def family(node: Node) -> str:
    """Name of a node without its overload number: ``AddmmBackward``."""
    name: str = node.name()
    return name.rsplit("::", 1)[-1].rstrip("0123456789")


def shapes(node: Node) -> list[tuple[int, ...]]:
    """Shapes of the results of the operation."""
    return [tuple(meta.shape) for meta in node._input_metadata]


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
    shape: tuple[int, ...]  # of the operand
    chain: tuple[Link, ...]  # from the operand down to the parameter
    below: tuple[tuple[int, ...], ...] = ()  # shapes of the operands of the chain's nodes


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


class Graph:
    """The nodes under a root, and for each node who uses it."""

    def __init__(self, roots: Iterable[Node]) -> None:
        self.nodes: dict[Node, int] = {}  # node -> place in the walk
        self.leaves: dict[int, Node] = {}  # id of a parameter -> its AccumulateGrad
        self.tangled: set[str] = set()  # parameters with more ways up than can be followed
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
                note(id(variable))
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
        for node in self.nodes:
            for meta in node._input_metadata:
                if meta.dtype in (torch.float16, torch.bfloat16):
                    return meta.dtype  # type: ignore[no-any-return]
        return None

    def on_one_gpu(self) -> bool:
        """Whether all results of all operations are on the same one."""
        devices = {meta.device for node in self.nodes for meta in node._input_metadata}
        return len(devices) == 1 and devices.pop().type == "cuda"

    def __contains__(self, node: Node) -> bool:
        return node in self.nodes

    def structure(self) -> int:
        """Hash of the names of all operations in order: the same for every step of an ordinary loop."""
        return hash(tuple(node.name() for node in self.nodes))

    def find(self, names: frozenset[str]) -> list[Node]:
        """Return the nodes of the given families."""
        return [node for node in self.nodes if family(node) in names]

    def checkpointed(self) -> bool:
        """Whether a part of the forward pass is recomputed during backward (``torch.utils.checkpoint``)."""
        return any(family(node) == "CheckpointFunctionBackward" or recomputed(node) for node in self.nodes)

    def paths(self, parameters: Mapping[str, Tensor], through: Iterable[Node]) -> Iterator[Path]:
        """Yield every way from an operation to a parameter; nodes in ``through`` are passed, not stopped at."""
        passed = set(through)
        self.tangled.clear()
        for name, parameter in parameters.items():
            leaf = self.leaves.get(id(parameter))
            if leaf is None:
                continue
            stack: list[tuple[Node, int, tuple[Link, ...]]] = [(leaf, 0, ())]
            visits = 0
            while stack:
                below, output, chain = stack.pop()
                visits += 1
                if visits > MAX_VISITS:
                    self.tangled.add(name)
                    break
                for user, slot, used in self.users.get(below, ()):
                    if used != output and below is not leaf:
                        continue
                    if family(user) in REARRANGES or user in passed:
                        for result in range(len(shapes(user))):
                            stack.append((user, result, (Link(user, slot, result), *chain)))
                    else:
                        yield Path(name, user, slot, shapes(below)[used], chain, _shapes_below(chain))


def _shapes_below(chain: tuple[Link, ...]) -> tuple[tuple[int, ...], ...]:
    """Shape of the operand that each link leads down to; the last is the parameter's."""
    operands = (link.node.next_functions[link.slot] for link in chain)
    return tuple(shapes(node)[output] for node, output in operands)


def recomputed(node: Node) -> bool:
    """Whether what the operation saved is recomputed when it is read (``torch.utils.checkpoint``)."""
    kind: Any = type(node)
    for name in _saved_by(kind):
        hook = getattr(getattr(node, name, None), "unpack_hook", None)
        if hook is not None and getattr(hook, "__qualname__", "").startswith("_checkpoint_hook"):
            return True
    return False


@cache
def _saved_by(kind: type) -> tuple[str, ...]:
    names = (f"_raw_saved_{saved}" for saved in ("mat1", "self", "input", "result"))
    return tuple(name for name in names if hasattr(kind, name))


def edge(node: Node, output: int = 0) -> torch.autograd.graph.GradientEdge:
    """The result ``output`` of an operation, as a place where gradients can be asked for."""
    return torch.autograd.graph.GradientEdge(node, output)


def signed(number: int) -> int:
    """Nodes give a negative number as if it had no sign."""
    return number - 2**64 if number >= 2**63 else number
