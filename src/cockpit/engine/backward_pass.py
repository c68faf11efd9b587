"""One backward pass of a tracked step, from before autograd runs it until its gradients are complete."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import why
from cockpit.engine import scene
from cockpit.engine.blueprint import Recalled
from cockpit.engine.capture import Capture
from cockpit.engine.familiar import Familiar
from cockpit.engine.graph import Graph
from cockpit.engine.losses import share
from cockpit.engine.microbatch import CHANGED, Microbatch, backpropagated
from cockpit.engine.needs import LOSSES, MAX_EIGENVALUE, Diagonal, Need, per_sample
from cockpit.engine.occasion import NOT_ASKED, Raw
from cockpit.engine.raw import Rehearsal
from cockpit.engine.scene import CHECKPOINTED, Scene, Seen
from cockpit.engine.second_order import SecondOrder
from cockpit.engine.settings import Settings
from cockpit.layers.layout import Layout

NO_LOSSES = (
    "no individual losses were seen; pass the loss as a module, use pit.loss(individual_losses), "
    "or for a model that returns its own loss watch(..., losses=...)"
)


class BackwardPass:
    """Places samples, computes curvature, listens while autograd runs, and yields a :class:`Microbatch`."""

    def __init__(
        self,
        graph: Graph,
        roots: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        parameters: Mapping[str, Tensor],
        seen: Seen,
        needs: frozenset[Need],
        settings: Settings,
        key: int,
    ) -> None:
        self.seen, self.needs = seen, needs
        self.parameters = {name: p for name, p in parameters.items() if id(p) in graph.leaves}
        loss = backpropagated(roots, seeds)
        self.loss = loss if loss.is_cuda else loss.clone()  # read at once there, at the end of the step here
        self._diagonal = any(isinstance(need, Diagonal) for need in needs)
        self._asked = per_sample(needs) or LOSSES in needs or self._diagonal
        self._replays = MAX_EIGENVALUE in needs and settings.programs.replayer is not None
        self._handles: list[Any] = []
        self.replayable = False  # set by who knows that nothing but numbers is needed
        self.scene = self._scene(graph, settings)
        self.half = graph.half if isinstance(self.scene, str) else self.scene.half
        self.structure = 0 if isinstance(self.scene, str) else self.scene.structure
        self._settings, self._programs = settings, settings.programs
        self.capture = self.scene if isinstance(self.scene, str) else self.scene.capture
        self.samples = 0 if isinstance(self.scene, str) else self.scene.samples
        self.curvature = SecondOrder(
            roots, seeds, self.parameters, self.capture, settings, abs(key), self.half is not None
        )
        begin = time.perf_counter()
        if self._diagonal or MAX_EIGENVALUE in needs:
            with scene.unnoticed(roots[0].grad_fn):
                self.curvature.compute(needs, CHECKPOINTED if self._recomputed(graph) else None)
        self.curvature_seconds = time.perf_counter() - begin

    def _scene(self, graph: Graph, settings: Settings) -> Scene | str:
        if not self._asked and not self._replays:
            return "individual gradients were not asked for"
        try:
            outputs = self._diagonal or self._replays
            return scene.find(graph, self.seen, self.parameters, settings, LOSSES in self.needs, outputs)
        except Exception as error:
            return why(error)

    def _recomputed(self, graph: Graph) -> bool:
        return self.scene == CHECKPOINTED or (isinstance(self.scene, str) and graph.checkpointed())

    @property
    def problem(self) -> str | None:
        """Why there are no individual gradients although they were asked for."""
        return self.capture if isinstance(self.capture, str) and self._asked else None

    # ---- while autograd runs

    def listen(self) -> None:
        """Place hooks on the graph."""
        if isinstance(self.capture, Capture) and per_sample(self.needs):
            if self.structure and self.replayable:
                self._choose_mode(self.capture)
            self.capture.watch()
        if LOSSES in self.needs:
            for node, call in self.seen.calls:
                self._handles.append(node.register_prehook(call.keep))

    @property
    def alone(self) -> bool:
        """Whether autograd may run on this thread: tensors are collected, as in a familiar pass, all on one GPU.

        Hooks of ours are Python: handing it over to the device's thread and back costs more than they do.
        """
        captured = self.capture
        if isinstance(captured, str) or captured.script is None:
            return False
        return isinstance(captured.found, Recalled) and captured.found.blueprint.alone

    def _choose_mode(self, captured: Capture) -> None:
        """A familiar graph: collect what a program replays, or find out what that is."""
        known = LOSSES not in self.needs or (self.seen.losses is None and (self.seen.calls or self._lossless))
        if not known or any(isinstance(layout, str) for layout in self._layouts()):
            return
        captured.script = self._programs.script(self.structure)
        if captured.script is None and self._programs.rehearse(self.structure):
            captured.rehearsal = Rehearsal(captured.graph.nodes, captured.found.placed)

    @property
    def _lossless(self) -> bool:
        """Whether nobody told of individual losses: the rest is measured without them."""
        return not self.seen.calls and all(forward.losses is None for _, forward in self.seen.forwards)

    def release(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if isinstance(self.capture, Capture):
            self.capture.release()

    def microbatch(self) -> Microbatch:
        """The gradients are complete: return what was seen."""
        captured = self.capture if isinstance(self.capture, Capture) else None
        raw = None if captured is None else self._raw(captured)
        return Microbatch(
            samples=self.samples,
            loss=self.loss,
            forms=captured.combined() if captured is not None else {},
            uncovered=captured.uncovered if captured is not None else {},
            shares=raw.why if raw is not None else self._shares(),
            coupled=captured is not None and captured.found.coupled,
            diagonals=self.curvature.diagonals,
            eigenpair=self.curvature.eigenpair,
            origin=tuple(forward.call for _, forward in self.seen.forwards),
            raw=raw,
            structure=self.structure,
        )

    def _raw(self, captured: Capture) -> Raw | None:
        if captured.rehearsal is not None:
            self._programs.keep(self.structure, captured.rehearsal.script())
        if captured.script is None:
            return None
        calls = [call for _, call in self.seen.calls] if LOSSES in self.needs else []
        if not captured.complete() or any(call.arrived is None for call in calls):
            self._programs.forget(self.structure)
            captured.uncovered.update(dict.fromkeys(self.parameters, CHANGED))
            return None
        reason = NO_LOSSES if LOSSES in self.needs and not calls else NOT_ASKED
        self._become_familiar(captured, None if calls else reason)
        return Raw(captured.script, captured.collected, calls, self._layouts(), reason)

    def _become_familiar(self, captured: Capture, why_none: str | None) -> None:
        """Nothing but tensors was read in this pass: from now on nothing else is asked."""
        seen, graph, found = self.seen, captured.graph, captured.found
        diagonals = tuple([need for need in self.needs if isinstance(need, Diagonal)])
        plain = MAX_EIGENVALUE not in self.needs and seen.size is None and self._replayed(diagonals)
        if not plain or not isinstance(found, Recalled) or any(call.losses is not None for _, call in seen.forwards):
            return
        assert captured.script is not None
        known = Familiar(
            blueprint=found.blueprint,
            script=captured.script,
            why=why_none,
            names=list(captured.parameters),
            forwards=tuple(graph.nodes[node] for node, _ in seen.forwards),
            calls=tuple(graph.nodes[node] for node, _ in seen.calls),
            sizes=[forward.size for _, forward in seen.forwards],
            shapes=[call.shape for _, call in seen.calls],
            diagonals=diagonals,
        )
        self._settings.familiar.keep(graph, self.needs, known)

    def _replayed(self, diagonals: Sequence[Diagonal]) -> bool:
        """Whether all of them can be replayed without finding anything out."""
        known = all(need.kind == "ggn" for need in diagonals)
        return known and (not diagonals or self._settings.recorded.readable(self.structure))

    def _shares(self) -> Tensor | str:
        """Each sample's share of the loss."""
        if LOSSES not in self.needs:
            return NOT_ASKED
        if self.problem:
            return self.problem
        seen = self.seen
        try:
            with torch.no_grad():
                if seen.losses is not None:
                    return share(seen.losses, float(self.loss), self.samples)
                if not seen.calls:
                    return self._from_model()
                placed = zip(seen.calls, self._layouts(), strict=True)
                parts = [call.contributions(self.samples, layout) for (_, call), layout in placed]
                return torch.stack(parts).sum(0)
        except Exception as error:
            return why(error)

    def _layouts(self) -> list[Layout | str]:
        return [] if isinstance(self.scene, str) else self.scene.layouts

    def _from_model(self) -> Tensor | str:
        """Individual losses of a model that returns its own: a callable, or an entry ``losses`` of its output."""
        for _, forward in self.seen.forwards:
            if isinstance(forward.losses, str):
                return forward.losses
            if forward.losses is not None:
                return share(forward.losses, float(self.loss), self.samples)
        return NO_LOSSES
