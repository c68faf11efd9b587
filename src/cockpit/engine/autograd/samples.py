"""How many samples a backward pass has, where they are known to be, and which operations lead to parameters."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.batch import REMEDY, Forward, batch_size_of
from cockpit.engine.autograd.checkpointed import REENTRANT, put_back
from cockpit.engine.autograd.graph import Graph, Node, Result, family, shapes
from cockpit.engine.autograd.loss_calls import LossCall
from cockpit.engine.autograd.loss_values import FUSED, kind
from cockpit.engine.autograd.placement import Answer, Place, Source, ask, place_above
from cockpit.engine.autograd.structures import Known, Structures
from cockpit.engine.autograd.uses import Uses, find_uses, first_operations
from cockpit.layers.layout import Layout, Placement, candidates


@dataclass(frozen=True)
class Seen:
    """What the forward pass showed, as far as it leads to the backpropagated number."""

    forwards: list[tuple[Node, Forward]] = field(default_factory=list)
    calls: list[tuple[Node, LossCall]] = field(default_factory=list)
    size: int | None = None  # told by the user, in the paper's ``info``
    losses: Tensor | None = None

    def outputs(self) -> list[Result]:
        """What the model returned, without a loss of its own."""
        results = [Result.at(node, output) for node, forward in self.forwards for output in forward.outputs]
        return [result for result in results if result.shape]

    def predictions(self) -> list[Result]:
        """What the loss was given."""
        return [call.prediction for _, call in self.calls if call.prediction is not None]


class Samples:
    """The samples of one backward pass."""

    def __init__(
        self,
        graph: Graph,
        seen: Seen,
        parameters: Mapping[str, Tensor],
        structures: Structures,
        axis: int = 0,
        size: Any = None,
        buffers: Callable[[], Iterable[Tensor]] = tuple,
        linear: Callable[[], list[Result]] = list,
    ) -> None:
        self.graph, self.seen, self._parameters = graph, seen, parameters
        self._structures, self._axis, self._buffers, self._linear = structures, axis, buffers, linear
        forwards, calls = [forward for _, forward in seen.forwards], [call for _, call in seen.calls]
        try:
            self.count = batch_size_of(forwards, calls, seen.losses, seen.size or size, axis)
        except Undefined:
            for node in graph.nodes:
                shapes(node)  # a nested tensor has none, and says so
            raise
        self.sources = self._find_sources()
        self._uses: Uses | None = None

    def uses(self) -> Uses:
        """Every operation that leads to a parameter, with the places of the samples."""
        if self._uses is None:
            self._uses = self._find_uses()
        return self._uses

    def _find_uses(self) -> Uses:
        at = self.graph.nodes  # individual losses given from outside may not be in the graph
        key = tuple((at.get(s.node), s.output) for s in self.sources), tuple(self._parameters)
        known: Known | None = self._structures.find(self.graph, key)
        uses = None if known is None else known.again(self.graph, self.count)
        if uses is not None:
            return uses
        if self.graph.find(frozenset({"CheckpointFunctionBackward"})):
            raise Undefined(REENTRANT)
        answers: dict[Place, Answer] = {}

        def asking(places: list[Place]) -> Mapping[Place, Answer]:
            answers.update(self._ask(places, self.sources))
            return answers

        self._structures.asked += 1
        uses = find_uses(self.graph, self._parameters, self.count, asking)
        lasting = self.count > 1 and all(answers[place].certain for place in answers) and not self._dynamic()
        if lasting:
            self._structures.keep(self.graph, key, Known.of(self.graph, uses, answers))
        return uses

    def _dynamic(self) -> bool:
        """Whether data decide what goes where between the samples' source and a parameter."""
        return any(family(node) in DYNAMIC for node in self.graph.below(source.node for source in self.sources))

    def described(self) -> str:
        """How many there are, along which axis of what, and from how many calls."""
        source, calls = self.sources[0], len({id(forward.call) for _, forward in self.seen.forwards})
        given = any(call.given is not None and call.given.node is source.node for _, call in self.seen.calls)
        axis = source.layout.axis_of(source.shape)
        along = f"along axis {axis} of" if axis >= 0 else "several rows each of"
        what = "what pit.loss was given" if given else "the model's output"
        several = f", {'from' if given else 'the same ones in'} {calls} calls of the model" if calls > 1 else ""
        return f"{self.count} in a backward pass, {along} {what}, {list(source.shape)}{several}"

    def place(self, node: Node, output: int) -> Layout | None:
        """Where the samples are in any result that has them."""
        result = Result.at(node, output)
        options = [p for p in candidates(result.shape, self.count, self._axis) if result.shape[p.axis] == self.count]
        return self.told(result) or (options[0].layout(result.shape, self.count) if options else None)

    def told(self, result: Result) -> Layout | None:
        """Where the samples are in a result, if they are told apart there: nothing is guessed."""
        place = result.node, result.output
        placement = self._ask([place], self.sources)[place].placement
        return None if placement is None else placement.layout(result.shape, self.count)

    # ---- where the samples are known

    def _find_sources(self) -> list[Source]:
        """Results whose samples are known, the surest kind first: losses given, outputs, what a loss was given."""
        losses, graph = self.seen.losses, self.graph
        kinds = [
            [] if losses is None or losses.grad_fn is None else [Result.of(losses)],
            self.seen.outputs(),
            [call.given for _, call in self.seen.calls if call.given is not None],
            self.seen.predictions(),
            [below] if (below := loss_input(graph)) is not None else [],
        ]
        if not any(kinds):  # the loss lies inside the model: its own results
            kinds.append(self._linear())
        given = kinds[2]
        if given and not all(self._fits(result) for result in given):
            kinds[1] = []
        for results in kinds:
            top = topmost(graph, results)
            described = [source for result in top if (source := self.likeliest(result)) is not None]
            if described and all(self._sure(source) for source in described):
                return described
            if described:  # the surest kind decides; a later one may fit by chance
                first = next(result for result in top if self.likeliest(result) is not None)
                return [self._by_asking(first)]
        seen = [result.shape for results in kinds for result in results]
        if seen:
            raise Undefined(f"a batch of {self.count} samples does not fit the output of shape {seen[0]}; {REMEDY}")
        raise Undefined("the network's output was not seen: call the model itself, or pass the loss as a module")

    def _fits(self, given: Result) -> bool:
        """Whether entries of ``pit.loss`` and outputs belong to the same samples; else the entries are the samples."""
        outputs = [source for result in self.seen.outputs() if (source := self.likeliest(result)) is not None]
        if not outputs or given.node not in self.graph:
            return True
        return self._above(given, outputs) is not None

    def _options(self, result: Result) -> list[Placement]:
        """Ways in which an output may hold the samples: along the preferred axis or the first."""
        return [p for p in candidates(result.shape, self.count, self._axis) if p.axis in (0, self._axis)]

    def likeliest(self, result: Result) -> Source | None:
        """The result with its samples where they most likely are; None where they do not fit."""
        layouts = (option.layout(result.shape, self.count) for option in self._options(result))
        return next((Source.placed(result, layout) for layout in layouts if layout is not None), None)

    def _sure(self, source: Source) -> bool:
        """One axis of the result holds the samples and no other could."""
        layouts = {option.layout(source.shape, self.count) for option in self._options(source)}
        return len(layouts) == 1 and source.layout.axis_of(source.shape) >= 0

    def _by_asking(self, result: Result) -> Source:
        """Samples and positions share an axis: the order in which the first operations on parameters see samples."""
        options = self._options(result)
        known = self._structures.find(self.graph, "order")
        if known not in options:
            known = min(options, key=lambda option: self._misplaced(result, option)) if len(options) > 1 else options[0]
            self._structures.keep(self.graph, "order", known)
        return self._at(result, known)

    def _at(self, result: Result, option: Placement) -> Source:
        layout = option.layout(result.shape, self.count)
        assert layout is not None
        return Source.placed(result, layout)

    def _misplaced(self, result: Result, option: Placement) -> int:
        places = first_operations(self.graph, self._parameters)
        answers = self._ask(places, [self._at(result, option)])
        return sum(answer.placement is None for answer in answers.values())

    def _ask(self, places: list[Place], sources: Sequence[Source]) -> dict[Place, Answer]:
        with put_back(self._buffers() if self.graph.checkpointed() else ()):
            return ask(self.graph, places, self.count, sources, self._axis)

    # ---- where they are in what the loss saw

    def outputs(self) -> list[Source]:
        """The network's outputs, where the loss begins: what the model returned, what the loss module was given, or
        what stands below a known loss in the graph.
        """
        returned = self.seen.outputs()
        described = [self.likeliest(result) for result in topmost(self.graph, returned)]
        if described and None not in described:
            return [source for source in described if source is not None]
        given = topmost(self.graph, self.seen.predictions())
        if given:
            return [Source.placed(result, layout) for result in given if (layout := self._placed(result)) is not None]
        below = None if returned else loss_input(self.graph)
        if below is None:
            return []
        layout = self.place(below.node, below.output)
        return [] if layout is None else [Source.placed(below, layout)]

    def of_loss(self, call: LossCall) -> Layout | str:
        """Where the samples are in what a loss saw, or why that is not known."""
        try:
            return self._placed(call.prediction or call.given) or "the loss saw nothing of the network"
        except Undefined as reason:
            return str(reason)

    def _placed(self, seen: Result | None) -> Layout | None:
        if seen is None or seen.node not in self.graph:
            return None
        for source in self.sources:
            if source.node is seen.node and source.output == seen.output:
                return source.layout
        layout = self._above(seen, self.sources)
        if layout is None:
            raise Undefined(f"where the {self.count} samples are in what the loss was given cannot be known")
        return layout

    def _above(self, seen: Result, sources: Sequence[Source]) -> Layout | None:
        """Where the samples are in a result that is computed from others."""
        key = self.graph.nodes[seen.node], seen.output
        known: Placement | None = self._structures.find(self.graph, key)
        layout = None if known is None else known.layout(seen.shape, self.count)
        if layout is None:
            known = place_above(seen, self.count, sources, self._axis)
            if known is not None and self.count > 1:
                self._structures.keep(self.graph, key, known)
            layout = None if known is None else known.layout(seen.shape, self.count)
        return layout


DYNAMIC = frozenset(
    f"{name}Backward"
    for name in (
        "Index", "IndexSelect", "IndexAdd", "IndexCopy", "IndexPut", "IndexPutImpl", "Gather", "Scatter", "ScatterAdd",
        "ScatterReduce", "MaskedSelect", "MaskedScatter", "Sort", "Topk", "Take", "PackPaddedSequence",
        "RepeatInterleave",
    )
)  # fmt: skip


def topmost(graph: Graph, results: Sequence[Result]) -> list[Result]:
    """Leave out results that others are computed from: what a model returns beside its output (caches, features)."""
    if len(results) < 2:
        return list(results)
    under = graph.below(o for r in results if r.node in graph for o, _ in r.node.next_functions if o is not None)
    return [result for result in results if result.node not in under]


def loss_input(graph: Graph) -> Result | None:
    """The result that a known loss in the graph compares with the targets."""
    for node in graph.nodes:
        if kind(node) in FUSED or kind(node) == "LogSoftmax":
            operand, output = node.next_functions[0]
            while operand is not None and family(operand) == "BackwardHookFunctionBackward":  # a hooked loss module
                operand, output = operand.next_functions[output]
            if operand is not None:
                return Result.at(operand, output)
    return None


@contextmanager
def unnoticed(node: Node) -> Iterator[None]:
    """For passes of our own over the user's graph: its warnings come once, from the user's pass; random numbers that a
    custom function draws in its backward are not the user's.
    """
    device = node._input_metadata[0].device
    generators = [torch.default_generator]
    if device.type == "cuda":
        generators.append(torch.cuda.default_generators[device.index])
    states = [generator.get_state() for generator in generators]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
