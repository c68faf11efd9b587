"""Where a backward pass happens: how many samples, where they are, which operations use which parameter."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import capture
from cockpit.engine.autograd.batch import REMEDY, Forward, batch_size_of
from cockpit.engine.autograd.graph import Graph, Node, Result, recomputed
from cockpit.engine.blueprint import Blueprint, Recalled, draw
from cockpit.engine.capture import Capture
from cockpit.engine.losses import LossCall
from cockpit.engine.placement import Finder, Source
from cockpit.engine.settings import Settings
from cockpit.layers.layout import Layout, Placement

CHECKPOINTED = (
    "activation checkpointing recomputes the forward pass whenever its tensors are read; "
    "measuring individual gradients or curvature would run it again, and with it whatever it changes"
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

    def samples(self, settings: Settings) -> int:
        """How many there are."""
        forwards, calls = [forward for _, forward in self.forwards], [call for _, call in self.calls]
        given = self.size or settings.batch_size
        return batch_size_of(forwards, calls, self.losses, given, settings.batch_axis)


@dataclass
class Scene:
    """What is known of a graph before autograd runs it."""

    samples: int
    half: torch.dtype | None
    capture: Capture
    layouts: list[Layout | str]  # of what each loss was given
    structure: int = 0  # number of the blueprint, if the graph is familiar: nothing of it had to be asked


def find(
    graph: Graph,
    seen: Seen,
    parameters: Mapping[str, Tensor],
    settings: Settings,
    losses: bool,
    outputs: bool,
) -> Scene:
    """Remember a graph of this structure, or find everything out; ``outputs``: the network's outputs are needed."""
    samples = seen.samples(settings)
    key = (
        samples,
        losses,
        outputs,
        tuple([call.shape for _, call in seen.calls]),
        None if seen.losses is None else seen.losses.shape,
        tuple(parameters),
    )
    known = settings.blueprints.find(graph, key)
    nodes = list(graph.nodes)
    if known is not None and known.fits(nodes):
        if any(recomputed(nodes[place]) for _, place, _ in known.paths):
            raise Undefined(CHECKPOINTED)
        return _again(known, graph, nodes, parameters, settings)
    if graph.checkpointed():
        raise Undefined(CHECKPOINTED)
    asked = settings.finder.asked
    with unnoticed(nodes[0]):
        scene, compiled = _Search(graph, seen, parameters, settings, samples).scene(losses, outputs)
    if settings.finder.asked == asked:
        _keep(graph, key, seen, scene, compiled, settings)
    return scene


def _again(
    known: Blueprint, graph: Graph, nodes: list[Node], parameters: Mapping[str, Tensor], settings: Settings
) -> Scene:
    captured = Capture(known.samples, parameters, graph, Recalled(known, nodes))
    captured.uncovered.update(known.uncovered)
    settings.compiled_seen |= known.compiled
    return Scene(known.samples, known.half, captured, known.loss_layouts, known.number)


def _keep(graph: Graph, key: tuple[object, ...], seen: Seen, scene: Scene, compiled: bool, settings: Settings) -> None:
    captured = scene.capture
    blueprint = draw(
        graph,
        scene.samples,
        scene.half,
        captured.uncovered,
        captured.found,
        scene.layouts,
        compiled,
    )
    if blueprint is not None:
        notes = [node for node, _ in seen.forwards], [node for node, _ in seen.calls]
        settings.blueprints.keep(graph, key, notes, blueprint)


class _Search:
    """Finds everything out about a graph."""

    def __init__(
        self, graph: Graph, seen: Seen, parameters: Mapping[str, Tensor], settings: Settings, samples: int
    ) -> None:
        self.graph, self.seen, self.parameters, self.settings = graph, seen, parameters, settings
        self.samples = samples
        self.sources: list[Source] = []

    def scene(self, losses: bool, outputs: bool) -> tuple[Scene, bool]:
        """The scene, and whether compiled code is in it."""
        settings = self.settings
        self.sources = self._sources()
        layouts = [self._loss_layout(call) for _, call in self.seen.calls] if losses else []
        compiled = any(node.name().startswith("CompiledFunction") for node in self.graph.nodes)
        settings.compiled_seen |= compiled
        ends = self._outputs() if outputs else []
        captured = capture.prepare(self.graph, self.parameters, self.samples, settings.finder, self.sources, ends)
        return Scene(self.samples, self.graph.half, captured, layouts), compiled

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


@contextmanager
def unnoticed(node: Node) -> Iterator[None]:
    """For passes of our own over the user's graph: its warnings come once, from the user's pass; random numbers that a
    custom function draws in its backward are not the user's.
    """
    device = node._input_metadata[0].device
    sources = [torch.default_generator]
    if device.type == "cuda":
        sources.append(torch.cuda.default_generators[device.index])
    states = [source.get_state() for source in sources]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for source, state in zip(sources, states, strict=True):
            source.set_state(state)
