"""Find out where the samples are in every intermediate result, by asking autograd rather than guessing from shapes.

A gradient is sent back from one sample alone. Where it arrives, and where it does not, shows which axis counts samples:
also for time first, flattened, folded or broadcast tensors. Two samples tell nearly all layouts apart (one would not
where the loss looks at a single position). Done once for each structure of the graph, then remembered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cockpit.engine.graph import Graph, Node, Path, Result, edge, shapes
from cockpit.layers.layout import Layout, Placement, candidates

ROUNDS = 8
MAX_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor whose samples are known: the model's output or the individual losses."""

    node: Node
    output: int
    shape: tuple[int, ...]
    layout: Layout
    dtype: torch.dtype
    device: torch.device


@dataclass(slots=True)
class Placements:
    """Decisions for one graph: a node's results are placed, or None (the node does not see the batch)."""

    nodes: dict[Node, tuple[Layout | None, ...]] = field(default_factory=dict)
    coupled: bool = False

    def on_batch(self, node: Node) -> bool:
        """Whether any result of the node has samples."""
        return any(layout is not None for layout in self.nodes.get(node, ()))


Remembered = dict[tuple[int, int, int], tuple[Placement | None, bool]]  # (structure, node, output) -> placement, exact


class Finder:
    """Places samples in graphs; remembers structures it has seen."""

    def __init__(self, preferred_axis: int = 0) -> None:
        self.preferred = preferred_axis
        self.probes = 0
        self._remembered: Remembered = {}

    def paths(
        self, graph: Graph, parameters: Mapping[str, Tensor], samples: int, sources: Sequence[Source]
    ) -> tuple[list[Path], Placements]:
        """Return every path from an operation on the batch to a parameter, and the placements of those operations."""
        placed = Placements(coupled=samples > 1 and couples(graph))
        structure = graph.structure()
        for _ in range(ROUNDS):
            inside = [node for node, layouts in placed.nodes.items() if not any(layouts)]
            found = list(graph.paths(parameters, inside))
            undecided = list(dict.fromkeys(path.node for path in found if path.node not in placed.nodes))
            if not undecided:
                return found, placed
            self._decide(graph, structure, undecided, samples, sources, placed)
        return [path for path in found if placed.on_batch(path.node)], placed

    def place(self, graph: Graph, node: Node, output: int, samples: int, sources: Sequence[Source]) -> Layout | None:
        """Place the samples in one result that is known to have them."""
        placed = Placements(coupled=samples > 1 and couples(graph))
        self._decide(graph, graph.structure(), [node], samples, sources, placed)
        shape = shapes(node)[output]
        options = candidates(shape, samples, self.preferred)
        likely = options[0].layout(shape, samples) if options and shape[options[0].axis] == samples else None
        return placed.nodes[node][output] or likely

    def recall(self, graph: Graph, node: Node, output: int, samples: int) -> Layout | None:
        """Return the placement of a result if it is remembered: no pass is needed for that."""
        key = (graph.structure(), graph.nodes[node], output)
        layout = self._recall(key, shapes(node)[output], samples)
        return layout if isinstance(layout, Layout) else None

    def _decide(
        self,
        graph: Graph,
        structure: int,
        nodes: list[Node],
        samples: int,
        sources: Sequence[Source],
        placed: Placements,
    ) -> None:
        open_results: list[tuple[Node, int]] = []
        chosen: dict[tuple[Node, int], Layout | None] = {}
        for node in nodes:
            for output, shape in enumerate(shapes(node)):
                known = self._recall((structure, graph.nodes[node], output), shape, samples)
                if known is not _UNKNOWN:
                    chosen[node, output] = known  # type: ignore[assignment]
                elif not candidates(shape, samples):
                    chosen[node, output] = None
                else:
                    open_results.append((node, output))
        if open_results:
            probed = (0,) if samples == 1 else (0, 1)
            arrived = [self._probe(open_results, sources, sample) for sample in probed]
            for (node, output), *grads in zip(open_results, *arrived, strict=True):
                key = (structure, graph.nodes[node], output)
                if sources and all(grad is None for grad in grads) and not _above(node, sources):
                    chosen[node, output] = None  # the batch never gets there: a term of the parameters alone
                else:
                    shape = shapes(node)[output]
                    on_batch = placed.coupled and _works_on_batch(node)
                    chosen[node, output] = self._choose(key, shape, samples, grads, placed, on_batch)
        for node in nodes:
            placed.nodes[node] = tuple(chosen[node, output] for output in range(len(shapes(node))))

    def _recall(self, key: tuple[int, int, int], shape: tuple[int, ...], samples: int) -> object:
        if key not in self._remembered:
            return _UNKNOWN
        placement, exact = self._remembered[key]
        if placement is None:
            return None
        layout = placement.layout(shape, samples)
        if layout is None or (exact and shape[placement.axis] != samples):
            return _UNKNOWN
        return layout

    def _probe(
        self, results: list[tuple[Node, int]], sources: Sequence[Source], sample: int
    ) -> Sequence[Tensor | None]:
        if not sources:
            return [None] * len(results)
        self.probes += 1
        seeds = []
        for source in sources:
            generator = torch.Generator().manual_seed(self.probes)
            noise = torch.randn(source.shape, generator=generator, dtype=torch.float32) + 1.5
            seeds.append(source.layout.mask(noise, sample).to(source.device, source.dtype))
        return torch.autograd.grad(
            [edge(source.node, source.output) for source in sources],
            [edge(node, output) for node, output in results],
            seeds,
            retain_graph=True,
            allow_unused=True,
        )

    def _choose(
        self,
        key: tuple[int, int, int],
        shape: tuple[int, ...],
        samples: int,
        grads: Sequence[Tensor | None],
        placed: Placements,
        works_on_batch: bool,
    ) -> Layout | None:
        options = candidates(shape, samples, self.preferred)
        if samples == 1:
            return options[0].layout(shape, samples)
        likely = options[0] if shape[options[0].axis] == samples else None
        if not any(grad is not None and bool(grad.any()) for grad in grads):
            return likely.layout(shape, samples) if likely else None  # nothing arrived: not remembered
        fitting = [option for option in options if _fits(grads, option.layout(shape, samples))]
        if not fitting and likely is not None and likely.axis == self.preferred:
            fitting = [likely] if placed.coupled and works_on_batch else []
        placement = fitting[0] if fitting else None
        if len(self._remembered) > MAX_REMEMBERED:  # a model whose graph never repeats
            self._remembered.clear()
        self._remembered[key] = (placement, placement is not None and shape[placement.axis] == samples)
        return placement.layout(shape, samples) if placement else None

    def place_above(self, result: Result, samples: int, sources: Sequence[Source]) -> Layout | None:
        """Place the samples in a result computed from a source (flattened predictions): send back from it instead."""
        shape, place = result.shape, edge(result.node, result.output)
        ones = torch.ones(shape, dtype=result.dtype, device=result.device)
        for option in candidates(shape, samples, self.preferred):
            layout = option.layout(shape, samples)
            if layout is None:
                continue
            for source in sources:
                grads = [
                    torch.autograd.grad(
                        [place],
                        [edge(source.node, source.output)],
                        [layout.mask(ones, sample)],
                        retain_graph=True,
                        allow_unused=True,
                    )[0]
                    for sample in range(min(2, samples))
                ]
                if all(grad is not None for grad in grads) and _fits(grads, source.layout):
                    return layout
        return None


_UNKNOWN = object()
BATCH_NORM = frozenset({"NativeBatchNormBackward", "CudnnBatchNormBackward", "MiopenBatchNormBackward"})


LAYERS = BATCH_NORM | {f"{name}Backward" for name in ("Addmm", "Mm", "Convolution", "Embedding", "NativeGroupNorm")}


def _works_on_batch(node: Node) -> bool:
    """Whether a layer is at or below the node: an operation on parameters alone (weight norm) has none."""
    return bool(Graph([node]).find(LAYERS))


def couples(graph: Graph) -> bool:
    """Whether samples see each other through batch statistics (instance normalisation is no such case)."""
    return any(getattr(node, "_saved_training", True) and shapes(node)[0][0] != 1 for node in graph.find(BATCH_NORM))


def _above(node: Node, sources: Sequence[Source]) -> bool:
    """Whether the node is computed from a source (a parameter of the loss itself)."""
    below = Graph([node])
    return any(source.node in below for source in sources)


def _fits(grads: Sequence[Tensor | None], layout: Layout | None) -> bool:
    """Whether the gradient sent back from sample k arrives at sample k and nowhere else."""
    return layout is not None and all(
        grad is None or not bool((layout.split(grad) * _others(layout, k, grad)).any()) for k, grad in enumerate(grads)
    )


def _others(layout: Layout, sample: int, like: Tensor) -> Tensor:
    """One for all samples but one: [1, samples, 1]."""
    mask = torch.ones(1, layout.samples, 1, dtype=torch.bool, device=like.device)
    mask[:, sample] = False
    return mask
