"""One backward pass of a tracked step, from before autograd runs it until its gradients are complete."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.engine import capture
from cockpit.engine.batch import Forward, batch_size_of
from cockpit.engine.capture import Capture
from cockpit.engine.graph import Graph
from cockpit.engine.losses import LossCall, share
from cockpit.engine.needs import LOSSES, Diagonal, Need, per_sample
from cockpit.engine.observation import Microbatch
from cockpit.engine.placement import Source
from cockpit.engine.second_order import SecondOrder
from cockpit.engine.settings import Settings
from cockpit.layers.layout import Layout

CHECKPOINTED = (
    "activation checkpointing recomputes the forward pass whenever its tensors are read; "
    "measuring individual gradients or curvature would run it again, and with it whatever it changes"
)
NO_LOSSES = (
    "no individual losses were seen; pass the loss as a module, use pit.loss(individual_losses), "
    "or for a model that returns its own loss watch(..., losses=...)"
)


@dataclass(frozen=True)
class Seen:
    """What the forward pass showed, as far as it leads to the backpropagated number."""

    forwards: list[Forward] = field(default_factory=list)
    calls: list[LossCall] = field(default_factory=list)
    size: int | None = None  # told by the user, in the paper's ``info``
    losses: Tensor | None = None

    def outputs(self, graph: Graph) -> list[Tensor]:
        """What the model returned."""
        return [t for forward in self.forwards for t in forward.predictions if t.grad_fn in graph]

    def predictions(self) -> list[Tensor]:
        """What the loss was given."""
        return [call.prediction for call in self.calls if call.prediction is not None]


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
        self.graph, self.seen, self.needs, self.settings = graph, seen, needs, settings
        self.parameters = {name: p for name, p in parameters.items() if id(p) in graph.leaves}
        self.half = _half(graph)
        self.loss = torch.zeros((), dtype=torch.float64, device=roots[0].device)
        for root, seed in zip(roots, seeds, strict=True):
            self.loss += (root.detach() * (1 if seed is None else seed)).sum()
        self.samples = 0
        self.sources: list[Source] = []
        self.capture: Capture | str = "individual gradients were not asked for"
        self._layouts: list[Layout | None] = []
        self._handles: list[Any] = []
        recomputed = graph.checkpointed()
        try:
            if recomputed:
                raise Undefined(CHECKPOINTED)
            self._place()
        except Exception as error:
            self.capture = why(error)
        key = abs(key)
        self.curvature = SecondOrder(roots, seeds, self.parameters, self.capture, settings, key, self.half is not None)
        begin = time.perf_counter()
        self.curvature.compute(needs, CHECKPOINTED if recomputed else None)
        self.curvature_seconds = time.perf_counter() - begin
        self._listen()

    @property
    def problem(self) -> str | None:
        """Why there are no individual gradients although they were asked for."""
        return self.capture if isinstance(self.capture, str) and self._needs_samples() else None

    def _needs_samples(self) -> bool:
        return per_sample(self.needs) or LOSSES in self.needs or self._needs_diagonal()

    def _needs_diagonal(self) -> bool:
        return any(isinstance(need, Diagonal) for need in self.needs)

    def _place(self) -> None:
        if not self._needs_samples():
            return
        seen, settings = self.seen, self.settings
        self.samples = seen.size or batch_size_of(seen.forwards, seen.calls, seen.losses, settings)
        self.sources = self._sources()
        if LOSSES in self.needs:
            self._layouts = [self._placed(call.prediction) for call in seen.calls]
        if any(node.name().startswith("CompiledFunction") for node in self.graph.nodes):
            settings.compiled_seen = True
        outputs = self._outputs() if self._needs_diagonal() else []
        self.capture = capture.prepare(
            self.graph, self.parameters, self.samples, settings.finder, self.sources, outputs
        )

    def _sources(self) -> list[Source]:
        """Tensors whose samples are known, the surest kind first: losses given, outputs, what a loss was given."""
        fallback: list[Source] = []
        kinds = [
            [] if self.seen.losses is None else [self.seen.losses],
            self.seen.outputs(self.graph),
            [call.values for call in self.seen.calls if call.values is not None],
            self.seen.predictions(),
        ]
        for tensors in kinds:
            described = [capture.source_of(t, self.samples, self.settings.batch_axis) for t in capture.topmost(tensors)]
            found = [source for source in described if source is not None]
            if found and all(source.layout.axis_of(source.shape) >= 0 for source in found):
                return found
            fallback = fallback or found[:1]
        return fallback

    def _outputs(self) -> list[Source]:
        """The network's outputs, where the loss begins: what the model returned, what the loss module was given, or
        what stands below a known loss in the graph.
        """
        returned = self.seen.outputs(self.graph)
        axis = self.settings.batch_axis
        found = [capture.source_of(tensor, self.samples, axis) for tensor in capture.topmost(returned)]
        if found and None not in found:
            return [source for source in found if source is not None]
        given = capture.topmost(self.seen.predictions())
        layouts = [self._placed(tensor) for tensor in given]
        if given and None not in layouts:
            described = [capture.described(tensor.grad_fn, tensor.output_nr) for tensor in given]
            placed = zip(described, layouts, strict=True)
            return [replace(source, layout=layout) for source, layout in placed if layout is not None]
        where = None if returned else capture.loss_input(self.graph)
        layout = None if where is None else self.settings.finder.place(self.graph, *where, self.samples, self.sources)
        return [] if where is None or layout is None else [replace(capture.described(*where), layout=layout)]

    def _placed(self, prediction: Tensor | None) -> Layout | None:
        """Where the samples are in what the loss was given."""
        if prediction is None or prediction.grad_fn not in self.graph:
            return None
        for source in self.sources:
            if source.node is prediction.grad_fn:
                return source.layout
        if self.sources:
            return self.settings.finder.place_above(prediction, self.samples, self.sources)
        known = capture.source_of(prediction, self.samples, self.settings.batch_axis)
        return known.layout if known is not None else None

    # ---- while autograd runs

    def _listen(self) -> None:
        if isinstance(self.capture, Capture) and per_sample(self.needs):
            self.capture.watch()
        for call in self.seen.calls:
            call.arrived.clear()
            self._handles.append(call.node.register_prehook(_keeper(call)))

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
        return Microbatch(
            samples=self.samples,
            loss=self.loss,
            forms=captured.combined() if captured is not None else {},
            uncovered=captured.uncovered if captured is not None else {},
            shares=self._shares(),
            coupled=captured is not None and captured.placed.coupled,
            diagonals=self.curvature.diagonals,
            eigenpair=self.curvature.eigenpair,
        )

    def _shares(self) -> Tensor | str:
        """Each sample's share of the loss."""
        if LOSSES not in self.needs:
            return "individual losses were not asked for"
        if self.problem:
            return self.problem
        seen = self.seen
        try:
            with torch.no_grad():
                if seen.losses is not None:
                    return share(seen.losses, float(self.loss), self.samples)
                if not seen.calls:
                    return self._from_model()
                placed = zip(seen.calls, self._layouts, strict=True)
                axis = self.settings.batch_axis
                return torch.stack([call.contributions(self.samples, layout, axis) for call, layout in placed]).sum(0)
        except Exception as error:
            return why(error)

    def _from_model(self) -> Tensor | str:
        """Individual losses of a model that returns its own: a callable, or an entry ``losses`` of its output."""
        for forward in self.seen.forwards:
            values = forward.individual_losses(self.settings.losses)
            if values is not None:
                return share(values, float(self.loss), self.samples)
        return NO_LOSSES


def _keeper(call: LossCall) -> Callable[[Sequence[Tensor]], None]:
    def keep(grads: Sequence[Tensor]) -> None:
        grad = grads[call.output.output_nr]
        if grad is not None:
            call.arrived.append(grad.detach())

    return keep


def _half(graph: Graph) -> torch.dtype | None:
    """Half precision anywhere in the graph."""
    for node in graph.nodes:
        for meta in node._input_metadata:
            if meta.dtype in (torch.float16, torch.bfloat16):
                return meta.dtype  # type: ignore[no-any-return]
    return None
