"""A backward pass through a familiar graph: what was found out about it holds, and only its tensors are collected.

At most steps of a training run nothing is new. Such a step must not pay for finding that out again and again: on a fast
device the host's time is all that a small net costs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from cockpit.engine.autograd.batch import Forward
from cockpit.engine.autograd.graph import Graph, Node, recomputed
from cockpit.engine.blueprint import MAX_REMEMBERED, Blueprint
from cockpit.engine.cross_entropy import Seeds
from cockpit.engine.losses import LossCall
from cockpit.engine.microbatch import CHANGED, Microbatch, Vectors, backpropagated
from cockpit.engine.needs import Diagonal, Need
from cockpit.engine.occasion import Raw
from cockpit.engine.program import Programs
from cockpit.engine.raw import Collected, Grads, Script


@dataclass(frozen=True, slots=True)
class Familiar:
    """What is known of a graph, and by what it is recognised beside its structure."""

    blueprint: Blueprint
    script: Script
    why: str | None  # there are no individual losses
    names: list[str]  # of the parameters that are trained
    forwards: tuple[int, ...]  # places where calls of the model are noted
    calls: tuple[int, ...]  # of the loss
    sizes: list[Any]  # samples of the calls of the model, as far as they are known
    shapes: list[tuple[int, ...]]  # of what the loss saw
    diagonals: tuple[Diagonal, ...] = ()  # of the Gauss-Newton matrix, replayed

    def met(self, graph: Graph, parameters: Mapping[str, Tensor], keys: tuple[str, str]) -> "Met | None":
        """The same in another graph of this structure; None if anything is not as it was."""
        nodes, (model, loss) = list(graph.nodes), keys
        forwards = [nodes[place].metadata.get(model) for place in self.forwards]
        calls = [nodes[place].metadata.get(loss) for place in self.calls]
        if None in forwards or None in calls or list(parameters) != self.names:
            return None
        if [forward.size for forward in forwards] != self.sizes or [call.shape for call in calls] != self.shapes:
            return None
        if any(forward.losses is not None for forward in forwards) or not self.blueprint.fits(nodes):
            return None
        saved: dict[int, tuple[Tensor, ...]] = {}
        for place, reading in self.script.asked:
            tensors = None if recomputed(nodes[place]) else reading.saved(nodes[place])
            if tensors is None:
                return None
            saved[place] = tensors
        return Met(self, nodes, forwards, calls, saved)


@dataclass(frozen=True, slots=True)
class Met:
    """A familiar graph at a step, and what its operations saved."""

    known: Familiar
    nodes: list[Node]
    forwards: list[Forward]
    calls: list[LossCall]
    saved: dict[int, tuple[Tensor, ...]]  # by place in the walk


@dataclass
class Acquaintances:
    """Familiar graphs, by structure and needs."""

    _known: dict[tuple[Any, frozenset[Need]], Familiar] = field(default_factory=dict)

    def find(self, graph: Graph, needs: frozenset[Need]) -> Familiar | None:
        """What is known of a graph like this."""
        return self._known.get((graph.signature, needs))

    def keep(self, graph: Graph, needs: frozenset[Need], known: Familiar) -> None:
        """Remember it."""
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[graph.signature, needs] = known


class FamiliarPass:
    """Takes the place of a :class:`BackwardPass`."""

    problem: str | None = None

    def __init__(
        self,
        met: Met,
        roots: Sequence[Tensor],
        seeds: Seeds,
        programs: Programs,
        diagonal: Vectors | None = None,
        curvature_seconds: float = 0.0,
    ) -> None:
        self._met, self._programs, self.curvature_seconds = met, programs, curvature_seconds
        self._diagonals = {} if diagonal is None else {need: [diagonal] for need in met.known.diagonals}
        blueprint = met.known.blueprint
        self.loss, self.half = backpropagated(roots, seeds), blueprint.half
        self.structure, self.alone = blueprint.number, blueprint.alone
        self._grads: dict[int, Grads] = {}  # by place in the walk
        self._handles: list[Any] = []

    def listen(self) -> None:
        """Have autograd put down the gradients: no code of ours runs in it."""
        nodes, put = self._met.nodes, self._grads.__setitem__
        for place in {**self._met.saved, **dict.fromkeys(self._met.known.calls)}:
            self._handles.append(nodes[place].register_prehook(partial(put, place)))

    def release(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def microbatch(self) -> Microbatch:
        """The gradients are complete: return what was seen."""
        known = self._met.known
        raw, uncovered = self._raw(), known.blueprint.uncovered
        if raw is None:
            self._programs.forget(self.structure)
            uncovered = dict.fromkeys(known.names, CHANGED)
        return Microbatch(
            samples=known.blueprint.samples,
            loss=self.loss,
            forms={},
            uncovered=uncovered,
            shares=known.why or CHANGED,
            coupled=known.blueprint.coupled,
            diagonals=dict(self._diagonals),
            origin=tuple([forward.call for forward in self._met.forwards]),
            raw=raw,
            structure=self.structure,
        )

    def _raw(self) -> Raw | None:
        """What was collected; None if a part of the graph took no part."""
        known, grads, collected = self._met.known, self._grads, Collected()
        for place, saved in self._met.saved.items():
            arrived = grads.get(place)
            if arrived is None:
                return None
            collected[place] = () if known.script.readings[place].passed else arrived, saved
        if known.why is not None:
            return Raw(known.script, collected, [], known.blueprint.loss_layouts, known.why)
        for place, call in zip(known.calls, self._met.calls, strict=True):
            arrived = grads.get(place)
            call.arrived = None if arrived is None else arrived[call.output]
            if call.arrived is None:
                return None
        return Raw(known.script, collected, self._met.calls, known.blueprint.loss_layouts)
