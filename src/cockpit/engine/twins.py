"""Stand-ins for autograd's nodes: what is read from them has a fixed address, so that what reads it can be replayed.

The first time something is read it is copied from the node; from then on only what was read then can be read, and
before a replay it is copied from the node that stands at the same place of the new graph.
"""

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from cockpit.engine.autograd.graph import Link, Node, Path
from cockpit.engine.feed import Draw
from cockpit.engine.raw import METADATA, NotReplayableError


class Twin:
    """Stands for one node."""

    def __init__(self, node: Node, draw: Draw) -> None:
        self.live: Node | None = node
        self.draw = draw
        self.values: dict[str, Any] = {}
        self.next_functions: tuple[tuple[Twin | None, int], ...] = ()
        self._name: str = node.name()
        metadata = [SimpleNamespace(shape=tuple(m.shape), dtype=m.dtype, device=m.device) for m in node._input_metadata]
        setattr(self, METADATA, metadata)

    def name(self) -> str:
        """Name of the node."""
        return self._name

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__["values"]
        if name in values:
            return values[name]
        if self.__dict__["live"] is None:
            raise AttributeError(name)
        if not name.startswith("_saved_"):
            raise NotReplayableError(name)
        found = getattr(self.live, name)
        values[name] = self.draw(found.detach()).copy_(found.detach()) if isinstance(found, Tensor) else found
        return values[name]


class Twins:
    """Stand-ins for all nodes of a graph."""

    def __init__(self, nodes: Iterable[Node], draw: Draw) -> None:
        """``draw``: memory for the copies."""
        self._of = {node: Twin(node, draw) for node in nodes}
        for node, twin in self._of.items():
            twin.next_functions = tuple(
                (None if operand is None else self._of[operand], output) for operand, output in node.next_functions
            )
        self._tensors: list[tuple[int, str]] = []
        self._constants: list[tuple[int, str, Any]] = []

    def of(self, node: Node) -> Twin:
        """The stand-in of a node."""
        return self._of[node]

    def path(self, path: Path) -> Path:
        """The same path along stand-ins."""
        chain = tuple(Link(self._of[link.node], link.slot, link.output) for link in path.chain)
        return Path(path.name, self._of[path.node], path.slot, path.shape, chain, path.below)

    def freeze(self) -> list[Tensor]:
        """Let go of the nodes; from now on only what has been read can be read. Returns the copies."""
        copies = []
        for place, twin in enumerate(self._of.values()):
            twin.live = None
            for name, value in twin.values.items():
                if isinstance(value, Tensor):
                    self._tensors.append((place, name))
                    copies.append(value)
                else:
                    self._constants.append((place, name, value))
        self._of = {}
        return copies

    def read(self, nodes: Sequence[Node]) -> list[Tensor] | None:
        """The same tensors of another graph of the structure; None if anything else has changed."""
        for place, name, value in self._constants:
            if getattr(nodes[place], name, None) != value:
                return None
        found = [getattr(nodes[place], name) for place, name in self._tensors]
        return found if all(isinstance(value, Tensor) for value in found) else None
