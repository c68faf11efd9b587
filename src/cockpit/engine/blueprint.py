"""What was found out about a graph, kept for the next graph of the same structure.

Finding the operations that use a parameter, and where the samples are in their results, takes thousands of questions to
autograd. The answers are the same for every step of an ordinary loop: they depend on the structure of the graph and on
shapes, unless data decide what goes where.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import torch

from cockpit.engine.autograd.graph import Graph, Link, Node, Path, shapes
from cockpit.engine.placement import DYNAMIC, Placements, Source
from cockpit.layers.layout import Layout

Key = tuple[Any, ...]


class Found:
    """What was found in a graph: paths from operations to parameters, where samples are, the network's outputs."""

    structure = 0  # number of the blueprint, if the graph is familiar

    def __init__(self, paths: list[Path], placed: Placements, outputs: list[Source]) -> None:
        self.paths, self.placed, self.outputs, self.coupled = paths, placed, outputs, placed.coupled


MAX_REMEMBERED = 64  # a model whose graph never repeats fills no memory


@dataclass(slots=True)
class Blueprint:
    """Paths and placements with places in the walk instead of nodes."""

    samples: int
    half: torch.dtype | None
    coupled: bool
    uncovered: dict[str, str]
    paths: list[tuple[Path, int, tuple[int, ...]]]  # with the place of its node and those of its chain
    layouts: dict[int, tuple[Layout | None, ...]]
    shapes: dict[int, list[tuple[int, ...]]]  # of the results of those nodes
    outputs: list[tuple[Source, int]]
    loss_layouts: list[Layout | str]
    compiled: bool
    alone: bool  # everything is on one GPU
    number: int = field(default_factory=count(1).__next__)  # tells structures apart

    def fits(self, nodes: list[Node]) -> bool:
        """Whether results have the same shapes in another graph of the same structure."""
        return all(shapes(nodes[place]) == found for place, found in self.shapes.items())

    def paths_in(self, nodes: list[Node]) -> list[Path]:
        """The same paths in another graph."""
        return [
            Path(
                path.name,
                nodes[place],
                path.slot,
                path.shape,
                tuple([Link(nodes[at], link.slot, link.output) for at, link in zip(chain, path.chain, strict=True)]),
                path.below,
            )
            for path, place, chain in self.paths
        ]


class Recalled(Found):
    """The same in another graph of the structure; made when asked for: a replayed step does not ask."""

    def __init__(self, blueprint: Blueprint, nodes: list[Node]) -> None:
        self.blueprint, self._nodes, self.coupled = blueprint, nodes, blueprint.coupled
        self.structure = blueprint.number

    @cached_property
    def paths(self) -> list[Path]:  # type: ignore[override]
        """Paths from operations to parameters."""
        return self.blueprint.paths_in(self._nodes)

    @cached_property
    def placed(self) -> Placements:  # type: ignore[override]
        """Where the samples are."""
        layouts = {self._nodes[place]: found for place, found in self.blueprint.layouts.items()}
        return Placements(layouts, self.coupled)

    @cached_property
    def outputs(self) -> list[Source]:  # type: ignore[override]
        """The network's outputs."""
        known = self.blueprint.outputs
        return [Source(self._nodes[at], s.output, s.shape, s.layout, s.dtype, s.device) for s, at in known]


def draw(
    graph: Graph,
    samples: int,
    half: torch.dtype | None,
    uncovered: Mapping[str, str],
    found: Found,
    loss_layouts: list[Layout | str],
    compiled: bool,
) -> Blueprint | None:
    """Remember a graph; None where data decide what goes where."""
    if graph.find(DYNAMIC):
        return None
    at, paths, placed, outputs = graph.nodes, found.paths, found.placed, found.outputs
    places = [(_without_nodes(path), at[path.node], tuple(at[link.node] for link in path.chain)) for path in paths]
    layouts = {at[node]: layout for node, layout in placed.nodes.items()}
    sizes = {at[node]: shapes(node) for node in placed.nodes}
    sources = [(Source(None, s.output, s.shape, s.layout, s.dtype, s.device), at[s.node]) for s in outputs]
    return Blueprint(
        samples,
        half,
        placed.coupled,
        dict(uncovered),
        places,
        layouts,
        sizes,
        sources,
        list(loss_layouts),
        compiled,
        graph.on_one_gpu(),
    )


def _without_nodes(path: Path) -> Path:
    chain = tuple(Link(None, link.slot, link.output) for link in path.chain)
    return Path(path.name, None, path.slot, path.shape, chain, path.below)


@dataclass
class Blueprints:
    """By the signature of the graph: where the forward and loss calls are noted, and what was found."""

    _noted: dict[Key, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    _known: dict[Key, Blueprint] = field(default_factory=dict)

    def noted(self, graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Places of the nodes that carried notes when a graph like this was seen."""
        return self._noted.get(graph.signature)

    def find(self, graph: Graph, key: Key) -> Blueprint | None:
        """What is known of a graph like this."""
        return self._known.get((graph.signature, key))

    def keep(self, graph: Graph, key: Key, notes: tuple[list[Node], list[Node]], found: Blueprint) -> None:
        """Remember it."""
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
            self._noted.clear()
        forwards, calls = (tuple(graph.nodes[node] for node in nodes) for nodes in notes)
        self._noted[graph.signature] = forwards, calls
        self._known[graph.signature, key] = found
