"""One backward pass of a tracked step: what each sample contributed to the gradient of each parameter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import why
from cockpit.core.guard import entry
from cockpit.engine.blueprint import Found
from cockpit.engine.eager import full_precision
from cockpit.engine.graph import Graph, Node, Path, Result, family
from cockpit.engine.placement import Finder, Source
from cockpit.engine.pull import gradient_of
from cockpit.engine.raw import Collected, Grads, Reading, Rehearsal, Script
from cockpit.layers import AnyForm, Form, combine
from cockpit.layers.layout import Layout, Placement, candidates

LOSSES = frozenset(
    f"{name}Backward"
    for name in ("LogSoftmax", "MseLoss", "BinaryCrossEntropyWithLogits", "HuberLoss", "SmoothL1Loss", "L1Loss")
)


@dataclass
class Capture:
    """The forms of one backward pass, filled while autograd runs it."""

    samples: int
    parameters: Mapping[str, Tensor]
    graph: Graph
    found: Found
    forms: dict[str, list[Form]] = field(default_factory=dict)
    uncovered: dict[str, str] = field(default_factory=dict)
    handles: list[Any] = field(default_factory=list)
    rehearsal: Rehearsal | None = None  # record what the rules read
    script: Script | None = None  # collect only what the rules read
    collected: Collected = field(default_factory=dict)
    changed: bool = False  # the script no longer fits

    def watch(self) -> None:
        """Listen at every operation on the batch that uses a parameter."""
        if self.script is not None:
            nodes = list(self.graph.nodes)
            for place, reading in self.script.readings.items():
                if reading.idle:
                    continue
                self.handles.append(nodes[place].register_prehook(partial(self._collect, place, nodes[place], reading)))
            return
        by_node: dict[Node, list[Path]] = {}
        for path in self.found.paths:
            by_node.setdefault(path.node, []).append(path)
        for node, paths in by_node.items():
            self.handles.append(node.register_prehook(partial(self._arrived, paths, self.found.placed.nodes[node])))

    @entry
    def _arrived(self, paths: list[Path], layouts: tuple[Layout | None, ...], grads: tuple[Tensor | None, ...]) -> None:
        with torch.no_grad(), full_precision(_device(grads)):
            for path in paths:
                if path.name not in self.uncovered:
                    self._take(path, grads, layouts)

    @entry
    def _collect(self, place: int, node: Node, reading: Reading, grads: Grads) -> None:
        found = reading.collect(node, grads)
        if found is None:
            self.changed = True
        else:
            self.collected[place] = found

    def fault(self, error: Exception) -> None:
        """Give up the individual gradients of this pass."""
        self.changed = True
        self.forms.clear()
        self.uncovered.update(dict.fromkeys(self.parameters, why(error)))

    def complete(self) -> bool:
        """Whether everything in the script was collected."""
        expected = () if self.script is None else [r for r in self.script.readings.values() if not r.idle]
        return self.script is not None and not self.changed and len(self.collected) == len(expected)

    def _take(self, path: Path, grads: tuple[Tensor | None, ...], layouts: tuple[Layout | None, ...]) -> None:
        try:
            pull = gradient_of if self.rehearsal is None else self.rehearsal.gradient_of
            self.forms.setdefault(path.name, []).append(pull(path, grads, layouts))
        except Exception as error:  # a user's training never breaks because it is watched
            self.uncovered[path.name] = why(error)

    def release(self) -> None:
        """Remove the hooks and let go of the graph."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def combined(self) -> dict[str, AnyForm]:
        """One form for each covered parameter that took part."""
        return {name: combine(parts) for name, parts in self.forms.items() if name not in self.uncovered}


def prepare(
    graph: Graph,
    parameters: Mapping[str, Tensor],
    samples: int,
    finder: Finder,
    sources: Sequence[Source],
    outputs: Sequence[Source],
) -> Capture:
    """Find every use of every parameter on the batch."""
    paths, placed = finder.paths(graph, parameters, samples, sources)
    capture = Capture(samples, parameters, graph, Found(paths, placed, list(outputs)))
    reached = {path.name for path in paths}
    for name, parameter in parameters.items():
        if id(parameter) in graph.leaves and name not in reached:
            capture.uncovered[name] = "no operation that uses it has a batch axis"
    for name in graph.tangled:
        capture.uncovered[name] = "too many ways lead from it to operations on the batch"
    return capture


def places_of(result: Result, samples: int, preferred: int) -> list[Placement]:
    """Ways in which an output may hold the samples: along the preferred axis or the first."""
    return [place for place in candidates(result.shape, samples, preferred) if place.axis in (0, preferred)]


def sources_of(result: Result, samples: int, preferred: int) -> list[Source]:
    """Describe a result whose samples lie along the preferred axis, or the first: all ways they may lie there."""
    layouts = [place.layout(result.shape, samples) for place in places_of(result, samples, preferred)]
    return [placed_at(result, layout) for layout in dict.fromkeys(layouts) if layout is not None]


def source_of(result: Result, samples: int, preferred: int) -> Source | None:
    """The likeliest of :func:`sources_of`, or None where the samples do not fit."""
    return next(iter(sources_of(result, samples, preferred)), None)


def placed_at(result: Result, layout: Layout) -> Source:
    """A result with its layout."""
    return Source(result.node, result.output, result.shape, layout, result.dtype, result.device)


def topmost(results: Sequence[Result]) -> list[Result]:
    """Leave out results that others are computed from: what a model returns beside its output (caches, features)."""
    if len(results) < 2:
        return list(results)
    below = [(result.node, Graph([result.node])) for result in results]
    return [
        result
        for result in results
        if not any(result.node in graph for node, graph in below if node is not result.node)
    ]


def loss_input(graph: Graph) -> Result | None:
    """The result that a known loss in the graph compares with the targets."""
    for node in graph.nodes:
        if family(node) in LOSSES:
            operand, output = node.next_functions[0]
            while operand is not None and family(operand) == "BackwardHookFunctionBackward":  # a hooked loss module
                operand, output = operand.next_functions[output]
            if operand is not None:
                meta = operand._input_metadata[output]
                return Result(operand, output, tuple(meta.shape), meta.dtype, meta.device)
    return None


def _device(grads: tuple[Tensor | None, ...]) -> str:
    return next((grad.device.type for grad in grads if grad is not None), "cpu")
