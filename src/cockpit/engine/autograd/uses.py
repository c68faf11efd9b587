"""What leads from the loss to each parameter: every edge is explained, or the parameter is uncovered with the reason.

An edge comes from an operation on the batch, whose rule gives what each sample contributed; from a result that is
computed from parameters alone and used on the batch (a transposed or normalised weight), through which contributions
are carried down; or from a term of the loss that hangs on parameters alone, to which no sample contributed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import REARRANGES, Graph, Link, Node, Path, family, shapes
from cockpit.engine.autograd.placement import Answer, Place, couples
from cockpit.layers.layout import Layout

ROUNDS = 32  # how many operations on parameters alone may follow each other
COMPLEX = "complex parameters are not supported: keep torch.view_as_real(w) as the parameter"
NO_SAMPLES = "no operation that uses it has a batch axis"
MIXED = (
    "a term of the loss uses it with numbers that may be samples'; use pit.loss, or add a penalty's gradient after "
    "backward()"
)

Slots = dict[Node, list[int]]  # operands of operations
Asking = Callable[[list[Place]], Mapping[Place, Answer]]

# A term that goes into these reaches the loss as it is, times a constant.
ADDITIVE = frozenset(
    f"{name}Backward"
    for name in ("Add", "Sub", "Rsub", "Neg", "Sum", "Mean", "Stack", "Cat", "View", "UnsafeView", "ReshapeAlias",
                 "Unsqueeze", "Squeeze", "Expand", "ToCopy", "Clone", "Alias")
)  # fmt: skip
SCALED = frozenset({"MulBackward", "DivBackward"})  # the same where the factor is a constant
UNSEEN = frozenset({"AddBackward", "SubBackward", "RsubBackward"})  # a constant beside the operand is not saved


@dataclass
class Uses:
    """The operations that lead to parameters in one graph."""

    samples: int
    names: dict[Node, str] = field(default_factory=dict)  # by the node that accumulates the parameter's gradient
    edges: Slots = field(default_factory=dict)  # operations on the batch: operands with parameters behind them
    carriers: Slots = field(default_factory=dict)  # computed from parameters, used on the batch: operands to go on with
    terms: Slots = field(default_factory=dict)  # hang on parameters alone: operands that are a parameter or a carrier
    layouts: dict[Node, tuple[Layout | None, ...]] = field(default_factory=dict)
    uncovered: dict[str, str] = field(default_factory=dict)
    coupled: bool = False
    regularised: set[str] = field(default_factory=set)  # to their gradient a term adds that no sample contributed to

    def paths(self) -> list[Path]:
        """Every way from an operation on the batch down to a parameter."""
        edges = [(node, slot) for node, slots in self.edges.items() for slot in slots]
        return [Path(name, *edge, chain) for edge in edges for name, chain in self._down(*edge)]

    def _down(self, user: Node, operand: int) -> Iterator[tuple[str, tuple[Link, ...]]]:
        node, output = user.next_functions[operand]
        if node in self.names:
            yield self.names[node], ()
        for slot in self.carriers.get(node, ()):
            for name, chain in self._down(node, slot):
                yield name, (Link(node, slot, output), *chain)

    def under(self, node: Node) -> set[str]:
        """Parameters that a result is computed from."""
        found, pending, seen = set[str](), [node], set[Node]()
        while pending:
            node = pending.pop()
            if node in self.names:
                found.add(self.names[node])
            elif node in self.carriers and node not in seen:
                seen.add(node)
                pending += [node.next_functions[slot][0] for slot in self.carriers[node]]
        return found


def find_uses(graph: Graph, parameters: Mapping[str, Tensor], samples: int, asking: Asking) -> Uses:
    """Explain every edge into a parameter; ``asking`` places the samples in results of operations."""
    uses = Uses(samples, coupled=samples > 1 and couples(graph))
    for name, parameter in parameters.items():
        if id(parameter) in graph.leaves:
            uses.names[graph.leaves[id(parameter)]] = name
    inside = _parameters_side(graph, uses, asking)
    for node in uses.layouts:
        behind = [slot for slot, (operand, _) in enumerate(node.next_functions) if operand in inside]
        if behind and any(uses.layouts[node]):
            uses.edges[node] = behind
    _mark_carriers(uses, inside)
    proof = _Proof(graph, inside)
    for end in [*uses.names, *uses.carriers]:
        for user, slot, _ in graph.users.get(end, ()):
            if user not in uses.edges and user not in uses.carriers:
                if proof.alone(user):
                    uses.terms.setdefault(user, []).append(slot)
                    uses.regularised |= uses.under(end)
                else:
                    uses.uncovered.update(dict.fromkeys(uses.under(end), MIXED))
    complex_ones = [name for name, parameter in parameters.items() if parameter.is_complex()]
    uses.uncovered |= dict.fromkeys(set(complex_ones) & set(uses.names.values()), COMPLEX)
    ends = {node.next_functions[slot][0] for node, slots in uses.edges.items() for slot in slots}
    covered = {name for end in (*ends, *uses.carriers) for name in uses.under(end)}
    for name in uses.names.values():
        if name not in covered:
            uses.uncovered.setdefault(name, NO_SAMPLES)
    return uses


def first_operations(graph: Graph, parameters: Mapping[str, Tensor]) -> list[Place]:
    """Results of the operations that use parameters, or these rearranged."""
    pending = [graph.leaves[id(p)] for p in parameters.values() if id(p) in graph.leaves]
    seen, found = set(pending), dict[Place, None]()
    while pending:
        for user, _, _ in graph.users.get(pending.pop(), ()):
            if family(user) not in REARRANGES:
                found.update(dict.fromkeys((user, out) for out in range(len(shapes(user)))))
            elif user not in seen:
                seen.add(user)
                pending.append(user)
    return list(found)


def _parameters_side(graph: Graph, uses: Uses, asking: Asking) -> set[Node]:
    """Nodes whose results hang on parameters and on no sample; where samples are in others goes to ``uses.layouts``."""
    inside, pending = set(uses.names), list(uses.names)
    for _ in range(ROUNDS):
        unasked = set[Node]()
        while pending:
            for user, _, _ in graph.users.get(pending.pop(), ()):
                if user in inside or user in uses.layouts:
                    continue
                if family(user) in REARRANGES:
                    inside.add(user)
                    pending.append(user)
                else:
                    unasked.add(user)
        if not unasked:
            break
        ordered = sorted(unasked, key=graph.nodes.__getitem__)
        answers = asking([(node, out) for node in ordered for out in range(len(shapes(node)))])
        for node in ordered:
            placed = [(answers[node, out].placement, shape) for out, shape in enumerate(shapes(node))]
            layouts = tuple(None if p is None else p.layout(shape, uses.samples) for p, shape in placed)
            if any(layouts):
                uses.layouts[node] = layouts
            else:
                inside.add(node)
                pending.append(node)
    return inside


def _mark_carriers(uses: Uses, inside: set[Node]) -> None:
    pending = [node.next_functions[slot][0] for node, slots in uses.edges.items() for slot in slots]
    while pending:
        node = pending.pop()
        if node in uses.names or node in uses.carriers:
            continue
        uses.carriers[node] = [slot for slot, (operand, _) in enumerate(node.next_functions) if operand in inside]
        pending += [node.next_functions[slot][0] for slot in uses.carriers[node]]


class _Proof:
    """Proves that what arrives at a parameter through a node hangs on parameters alone."""

    def __init__(self, graph: Graph, inside: set[Node]) -> None:
        self._inside = inside
        self._pure: dict[Node, bool] = {}
        self._free: dict[Node, bool] = {}
        for node in graph.upwards:
            self._pure[node] = self._is_pure(node)
        for node in reversed(graph.upwards):
            users = graph.users.get(node, ())
            self._free[node] = all(self._passes_on(user) and self._free[user] for user, _, _ in users)

    def alone(self, user: Node) -> bool:
        """Whether the gradient that arrives through this node is the same whatever the samples are."""
        return self._free[user] and (self._pure[user] or self._passes_on(user))

    def _passes_on(self, node: Node) -> bool:
        """Whether operands are only multiplied with constants, or everything at the node hangs on parameters."""
        name = family(node)
        if name in ADDITIVE or self._pure[node]:
            return True
        return name in SCALED and any(operand is None for operand, _ in node.next_functions)

    def _is_pure(self, node: Node) -> bool:
        if node not in self._inside:
            return False
        if not node.next_functions:
            return True  # a parameter
        several = len(node.next_functions) > 1
        for slot, (operand, _) in enumerate(node.next_functions):
            if operand is None and several and not _small_constant(node, slot):
                return False
            if operand is not None and not self._pure[operand]:
                return False
        return True


def _small_constant(node: Node, slot: int) -> bool:
    """Whether an operand that is no result is surely a single number."""
    if family(node) in UNSEEN:
        return False
    saved = getattr(node, "_saved_other" if slot else "_saved_self", None)
    return saved is None or (isinstance(saved, torch.Tensor) and saved.numel() == 1)
