"""Per-sample gradients in two halves: what a rule reads is collected while autograd runs, the rule itself runs later.

A rule reads gradients and saved tensors of an autograd node. Recorded once, the list of what it reads is known, and
from then on only those tensors are collected; the rules, and everything computed from them, can be replayed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from cockpit.engine.autograd.graph import Link, Node, Path
from cockpit.engine.autograd.pull import gradient_of
from cockpit.engine.placement import Placements
from cockpit.layers import AnyForm, Form, combine
from cockpit.layers.layout import Layout

Grads = tuple[Tensor | None, ...]
METADATA = "_input_metadata"  # shapes of a node's results: the same in every graph of the structure
Collected = dict[int, tuple[Grads, tuple[Tensor, ...]]]  # by place in the walk: gradients, saved tensors


class NotReplayableError(Exception):
    """A rule calls its node instead of reading from it."""


class Recording:
    """Stands for a node and remembers what is read from it."""

    def __init__(self, node: Node) -> None:
        self._node, self._read = node, dict[str, Any]()

    def name(self) -> str:
        """Name of the node."""
        found: str = self._node.name()
        return found

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_saved_") and name != METADATA:
            raise NotReplayableError(name)
        value = getattr(self._node, name)
        if name == METADATA:
            value = [SimpleNamespace(shape=tuple(m.shape), dtype=m.dtype, device=m.device) for m in value]
        self._read[name] = value
        return value


class Frozen:
    """Stands for a node that is gone: what was read from it."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self._name, self._values = name, values

    def name(self) -> str:
        """Name of the node."""
        return self._name

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(slots=True)
class Reading:
    """What the rules of all paths through one node read from it."""

    name: str
    tensors: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...]
    layouts: tuple[Layout | None, ...]
    passed: bool  # only on the way to a parameter: its gradients are not asked for

    @property
    def idle(self) -> bool:
        """Whether there is nothing to collect."""
        return self.passed and not self.tensors

    def saved(self, node: Node) -> tuple[Tensor, ...] | None:
        """Read the tensors; None if anything else has changed."""
        for name, value in self.constants:
            if name != METADATA and getattr(node, name) != value:
                return None
        return tuple([getattr(node, name) for name in self.tensors])

    def collect(self, node: Node, grads: Grads) -> tuple[Grads, tuple[Tensor, ...]] | None:
        """The gradients as far as they are asked for, and the tensors; None if anything else has changed."""
        saved = self.saved(node)
        return None if saved is None else (() if self.passed else grads, saved)


@dataclass
class Script:
    """For one structure of graphs: which node is asked for what, and how forms are made of the answers."""

    readings: dict[int, Reading]  # by place in the walk
    paths: list[tuple[int, tuple[int, ...], Path]]  # place of the node, and of those of its chain

    @cached_property
    def asked(self) -> list[tuple[int, Reading]]:
        """Those that collect something."""
        return [(place, reading) for place, reading in self.readings.items() if not reading.idle]

    @property
    def names(self) -> set[str]:
        """The parameters."""
        return {path.name for _, _, path in self.paths}

    def only(self, names: Collection[str]) -> "Script":
        """The part that these parameters need."""
        paths = [entry for entry in self.paths if entry[2].name in names]
        places = {at for place, chain, _ in paths for at in (place, *chain)}
        return Script({place: reading for place, reading in self.readings.items() if place in places}, paths)

    def forms(self, collected: Collected) -> dict[str, AnyForm]:
        """Run the rules."""
        nodes = {}
        for place, reading in self.readings.items():
            saved = collected[place][1] if not reading.idle else ()
            values = dict(reading.constants) | dict(zip(reading.tensors, saved, strict=True))
            nodes[place] = Frozen(reading.name, values)
        found: dict[str, list[Form]] = {}
        for place, chain, path in self.paths:
            links = tuple(Link(nodes[at], link.slot, link.output) for at, link in zip(chain, path.chain, strict=True))
            layouts = self.readings[place].layouts
            form = gradient_of(replace(path, node=nodes[place], chain=links), collected[place][0], layouts)
            found.setdefault(path.name, []).append(form)
        return {name: combine(forms) for name, forms in found.items()}


@dataclass
class Rehearsal:
    """Runs the rules as usual and records what they read."""

    places: Mapping[Node, int]
    placed: Placements
    failed: bool = False
    _paths: list[tuple[int, tuple[int, ...], Path]] = field(default_factory=list)
    _read: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def gradient_of(self, path: Path, grads: Grads, layouts: Sequence[Layout | None]) -> Form:
        """As the function of that name."""
        node, links = Recording(path.node), [Recording(link.node) for link in path.chain]
        chain = tuple(Link(seen, link.slot, link.output) for seen, link in zip(links, path.chain, strict=True))
        try:
            form = gradient_of(replace(path, node=node, chain=chain), grads, tuple(layouts))
        except NotReplayableError:
            self.failed = True
            return gradient_of(path, grads, tuple(layouts))
        place = self.places[path.node]
        below = tuple(self.places[link.node] for link in path.chain)
        for at, seen in ((place, node), *zip(below, links, strict=True)):
            self._read.setdefault(at, (seen.name(), {}))[1].update(seen._read)
        bare = tuple(Link(None, link.slot, link.output) for link in path.chain)
        self._paths.append((place, below, replace(path, node=None, chain=bare)))
        return form

    def script(self) -> Script | None:
        """What was recorded; None if a rule cannot be replayed."""
        if self.failed or not self._paths:
            return None
        nodes, asked = list(self.places), {place for place, _, _ in self._paths}
        readings = {}
        for place, (name, read) in self._read.items():
            tensors = tuple(key for key, value in read.items() if isinstance(value, Tensor))
            constants = tuple((key, value) for key, value in read.items() if not isinstance(value, Tensor))
            layouts = self.placed.nodes.get(nodes[place], ())
            readings[place] = Reading(name, tensors, constants, layouts, place not in asked)
        return Script(readings, self._paths)
