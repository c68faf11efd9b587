"""What was found out about a graph, for the next graph of the same structure: it saves questions, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cockpit.engine.autograd.graph import Graph, Result, shapes
from cockpit.engine.autograd.placement import Answer, Place
from cockpit.engine.autograd.uses import Slots, Uses
from cockpit.layers.layout import Layout, Placement, candidates

MOST = 64  # a model whose graph never repeats fills no memory

Placed = tuple[Placement | None, bool]  # the placement, and whether its axis held samples and nothing else


@dataclass(frozen=True)
class Known:
    """The uses of parameters, with places in the walk over the graph instead of nodes."""

    uses: Uses  # its nodes are numbers
    placed: Mapping[int, tuple[Placed, ...]]

    @classmethod
    def of(cls, graph: Graph, uses: Uses, answers: Mapping[Place, Answer]) -> "Known":
        """Remember what was found."""
        at = graph.nodes

        def kept(node: Any, out: int, shape: tuple[int, ...]) -> Placed:
            placement = answers[node, out].placement
            return placement, placement is not None and shape[placement.axis] == uses.samples

        placed = {
            at[node]: tuple(kept(node, out, shape) for out, shape in enumerate(shapes(node))) for node in uses.layouts
        }
        return cls(_moved(uses, at, {}), placed)

    def again(self, graph: Graph, samples: int) -> Uses | None:
        """The same in another graph of the structure; None where results have become other ones."""
        nodes, layouts = graph.order, {}
        for place, placed in self.placed.items():
            node, here = nodes[place], []
            for (placement, whole), shape in zip(placed, shapes(node), strict=True):
                layout = None if placement is None else placement.layout(shape, samples)
                if placement is not None and (layout is None or (whole and shape[placement.axis] != samples)):
                    return None
                here.append(layout)
            layouts[node] = tuple(here)
        uses = _moved(self.uses, nodes, layouts)
        uses.samples = samples
        return uses


def _moved(uses: Uses, to: Any, layouts: dict[Any, tuple[Layout | None, ...]]) -> Uses:
    def slots(given: Slots) -> Slots:
        return {to[node]: list(operands) for node, operands in given.items()}

    names = {to[node]: name for node, name in uses.names.items()}
    edges, carriers, terms = slots(uses.edges), slots(uses.carriers), slots(uses.terms)
    found = Uses(uses.samples, names, edges, carriers, terms, layouts, dict(uses.uncovered), uses.coupled)
    found.regularised = set(uses.regularised)
    return found


@dataclass
class Structures:
    """By the signature of the graph: uses of parameters, the order of an output, what a loss saw."""

    asked: int = 0  # graphs that had to be asked
    _known: dict[Any, Known] = field(default_factory=dict)
    _orders: dict[Any, Placement] = field(default_factory=dict)
    _above: dict[Any, Placement] = field(default_factory=dict)

    def find(self, graph: Graph, key: Any) -> Known | None:
        """What is known of a graph like this."""
        return self._known.get((graph.signature, key))

    def keep(self, graph: Graph, key: Any, known: Known) -> None:
        """Remember it."""
        _make_room(self._known)
        self._known[graph.signature, key] = known

    def order(self, graph: Graph) -> Placement | None:
        """How the output of a graph like this holds samples and positions."""
        return self._orders.get(graph.signature)

    def keep_order(self, graph: Graph, placement: Placement) -> None:
        """Remember it."""
        _make_room(self._orders)
        self._orders[graph.signature] = placement

    def above(self, graph: Graph, seen: Result, samples: int) -> Layout | None:
        """Where the samples are in what a loss saw."""
        known = self._above.get((graph.signature, graph.nodes[seen.node], seen.output))
        return None if known is None else known.layout(seen.shape, samples)

    def keep_above(self, graph: Graph, seen: Result, samples: int, layout: Layout) -> None:
        """Remember it, where it is told apart from other placements."""
        options = [p for p in candidates(seen.shape, samples) if p.layout(seen.shape, samples) == layout]
        if samples > 1 and options:
            _make_room(self._above)
            self._above[graph.signature, graph.nodes[seen.node], seen.output] = options[0]


def _make_room(memory: dict[Any, Any]) -> None:
    if len(memory) >= MOST:
        memory.clear()
