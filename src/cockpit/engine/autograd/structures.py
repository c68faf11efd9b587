"""What was found out about a graph, for the next graph of the same structure: it saves questions, and nothing else."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cockpit.engine.autograd.graph import Graph, shapes
from cockpit.engine.autograd.placement import Answer, Place
from cockpit.engine.autograd.uses import Slots, Uses
from cockpit.layers.layout import Layout, Placement

MOST = 128  # a model whose graph never repeats fills no memory

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
        return cls(_moved(uses, uses.samples, at, {}), placed)

    def again(self, graph: Graph, samples: int) -> Uses | None:
        """The same in another graph of the structure; None where results have become other ones."""
        nodes, layouts = list(graph.nodes), {}
        for place, placed in self.placed.items():
            node, here = nodes[place], []
            for (placement, whole), shape in zip(placed, shapes(node), strict=True):
                layout = None if placement is None else placement.layout(shape, samples)
                if placement is not None and (layout is None or (whole and shape[placement.axis] != samples)):
                    return None
                here.append(layout)
            layouts[node] = tuple(here)
        return _moved(self.uses, samples, nodes, layouts)


def _moved(uses: Uses, samples: int, to: Any, layouts: dict[Any, tuple[Layout | None, ...]]) -> Uses:
    def slots(given: Slots) -> Slots:
        return {to[node]: list(operands) for node, operands in given.items()}

    names = {to[node]: name for node, name in uses.names.items()}
    edges, carriers, terms = slots(uses.edges), slots(uses.carriers), slots(uses.terms)
    found = Uses(samples, names, edges, carriers, terms, layouts, dict(uses.uncovered), uses.coupled)
    found.regularised = set(uses.regularised)
    return found


@dataclass
class Structures:
    """Answers by the signature of the graph and the question."""

    asked: int = 0  # graphs that had to be asked where samples are
    _known: dict[Any, Any] = field(default_factory=dict)

    def find(self, graph: Graph, question: Hashable) -> Any:
        """What is known of a graph like this."""
        return self._known.get((graph.signature, question))

    def keep(self, graph: Graph, question: Hashable, answer: Any) -> None:
        """Remember it."""
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[graph.signature, question] = answer
