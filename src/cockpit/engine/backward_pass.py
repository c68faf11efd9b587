"""One backward pass of a tracked step, from before autograd runs it until its gradients are complete."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.engine import capture
from cockpit.engine.batch import REMEDY, Forward, batch_size_of
from cockpit.engine.capture import Capture
from cockpit.engine.graph import Graph, Node, Result
from cockpit.engine.losses import LossCall, share
from cockpit.engine.needs import LOSSES, Diagonal, Need, per_sample
from cockpit.engine.observation import Microbatch
from cockpit.engine.placement import Finder, Source
from cockpit.engine.second_order import SecondOrder
from cockpit.engine.settings import Settings
from cockpit.layers.layout import Layout, Placement

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

    forwards: list[tuple[Node, Forward]] = field(default_factory=list)
    calls: list[tuple[Node, LossCall]] = field(default_factory=list)
    size: int | None = None  # told by the user, in the paper's ``info``
    losses: Tensor | None = None

    def outputs(self) -> list[Result]:
        """What the model returned, without a loss of its own."""
        return [result for node, forward in self.forwards for result in forward.results(node) if result.shape]

    def predictions(self) -> list[Result]:
        """What the loss was given."""
        return [call.prediction for _, call in self.calls if call.prediction is not None]


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
        self._layouts: list[Layout | str] = []
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
        forwards, calls = [forward for _, forward in seen.forwards], [call for _, call in seen.calls]
        given = seen.size or settings.batch_size
        self.samples = batch_size_of(forwards, calls, seen.losses, given, settings.batch_axis)
        self.sources = self._sources()
        if LOSSES in self.needs:
            self._layouts = [self._loss_layout(call) for call in calls]
        if any(node.name().startswith("CompiledFunction") for node in self.graph.nodes):
            settings.compiled_seen = True
        outputs = self._outputs() if self._needs_diagonal() else []
        self.capture = capture.prepare(
            self.graph, self.parameters, self.samples, settings.finder, self.sources, outputs
        )

    def _sources(self) -> list[Source]:
        """Results whose samples are known, the surest kind first: losses given, outputs, what a loss was given."""
        losses = self.seen.losses
        kinds = [
            [] if losses is None or losses.grad_fn is None else [Result.of(losses)],
            self.seen.outputs(),
            [call.given for _, call in self.seen.calls if call.given is not None],
            self.seen.predictions(),
            [below] if (below := capture.loss_input(self.graph)) is not None else [],
        ]
        for results in kinds:
            top = capture.topmost(results)
            described = [capture.source_of(result, self.samples, self.settings.batch_axis) for result in top]
            found = [source for source in described if source is not None]
            if found and all(self._sure(source) for source in found):
                return found
            if found:  # the surest kind decides; a later one may fit by chance
                fits = [result for result, source in zip(top, described, strict=True) if source is not None]
                return self._likeliest(fits[0])
        shapes = [result.shape for results in kinds for result in results]
        if shapes:
            raise Undefined(f"a batch of {self.samples} samples does not fit the output of shape {shapes[0]}; {REMEDY}")
        raise Undefined("the network's output was not seen: call the model itself, or pass the loss as a module")

    def _sure(self, source: Source) -> bool:
        """One axis of the result holds the samples and no other could."""
        result = Result(source.node, source.output, source.shape, source.dtype, source.device)
        alone = len(capture.sources_of(result, self.samples, self.settings.batch_axis)) == 1
        return alone and source.layout.axis_of(source.shape) >= 0

    def _likeliest(self, result: Result) -> list[Source]:
        """Samples and positions share an axis of the output: the order under which the network falls into samples."""
        places = capture.places_of(result, self.samples, self.settings.batch_axis)
        structure = self.graph.structure()
        known = self.settings.orders.get(structure)

        def source(place: Placement) -> Source:
            layout = place.layout(result.shape, self.samples)
            assert layout is not None
            return capture.placed_at(result, layout)

        def not_placed(place: Placement) -> int:
            finder = Finder(self.settings.batch_axis)
            _, found = finder.paths(self.graph, self.parameters, self.samples, [source(place)])
            return sum(not found.on_batch(node) for node in found.nodes)

        if known not in places:
            known = min(places, key=not_placed) if len(places) > 1 else places[0]
            self.settings.orders[structure] = known
        return [source(known)]

    def _outputs(self) -> list[Source]:
        """The network's outputs, where the loss begins: what the model returned, what the loss module was given, or
        what stands below a known loss in the graph.
        """
        returned, axis = self.seen.outputs(), self.settings.batch_axis
        found = [capture.source_of(result, self.samples, axis) for result in capture.topmost(returned)]
        if found and None not in found:
            return [source for source in found if source is not None]
        given = capture.topmost(self.seen.predictions())
        if given:
            layouts = [(result, self._placed(result)) for result in given]
            return [capture.placed_at(result, layout) for result, layout in layouts if layout is not None]
        below = None if returned else capture.loss_input(self.graph)
        if below is None:
            return []
        layout = self.settings.finder.place(self.graph, below.node, below.output, self.samples, self.sources)
        return [] if layout is None else [capture.placed_at(below, layout)]

    def _loss_layout(self, call: LossCall) -> Layout | str:
        """Where the samples are in what a loss saw, or why that is not known."""
        try:
            return self._placed(call.prediction or call.given) or "the loss saw nothing of the network"
        except Undefined as reason:
            return str(reason)

    def _placed(self, prediction: Result | None) -> Layout | None:
        """Where the samples are in what the loss was given."""
        if prediction is None or prediction.node not in self.graph:
            return None
        for source in self.sources:
            if source.node is prediction.node and source.output == prediction.output:
                return source.layout
        layout = self.settings.finder.place_above(prediction, self.samples, self.sources)
        if layout is None:
            raise Undefined(f"where the {self.samples} samples are in what the loss was given cannot be known")
        return layout

    # ---- while autograd runs

    def listen(self) -> None:
        """Place hooks on the graph."""
        if isinstance(self.capture, Capture) and per_sample(self.needs):
            self.capture.watch()
        for node, call in self.seen.calls:
            self._handles.append(node.register_prehook(_keeper(call)))

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
            origin=tuple(forward.call for _, forward in self.seen.forwards),
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
                parts = [call.contributions(self.samples, layout) for (_, call), layout in placed]
                return torch.stack(parts).sum(0)
        except Exception as error:
            return why(error)

    def _from_model(self) -> Tensor | str:
        """Individual losses of a model that returns its own: a callable, or an entry ``losses`` of its output."""
        for _, forward in self.seen.forwards:
            if isinstance(forward.losses, str):
                return forward.losses
            if forward.losses is not None:
                return share(forward.losses, float(self.loss), self.samples)
        return NO_LOSSES


def _keeper(call: LossCall) -> Callable[[Sequence[Tensor]], None]:
    def keep(grads: Sequence[Tensor]) -> None:
        grad = grads[call.output]
        call.arrived = None if grad is None else grad.detach()

    return keep


def _half(graph: Graph) -> torch.dtype | None:
    """Half precision anywhere in the graph."""
    for node in graph.nodes:
        for meta in node._input_metadata:
            if meta.dtype in (torch.float16, torch.bfloat16):
                return meta.dtype  # type: ignore[no-any-return]
    return None
