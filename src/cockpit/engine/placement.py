"""Find out where the samples are in every intermediate result, by asking autograd rather than guessing from shapes.

A gradient is sent back twice, the second time with a weight for each sample. Where samples are told apart, what arrives
the second time is what arrived the first time, times the weight of its sample: this shows which axis counts samples,
also for time first, flattened, folded or broadcast tensors. Weights are powers of two, so that rounding is the same.
Done once for each structure of the graph, then remembered, unless data decide what goes where (indexing, routing).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cockpit.engine.graph import Graph, Node, Path, Result, edge, family, shapes
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
        self.asked = 0  # graphs that had to be asked where their samples are
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
            self.asked += 1
            weights = _weights(samples)
            plain, weighted = (self._probe(open_results, sources, w) for w in (torch.ones(samples), weights))
            lasting, rough = not graph.find(DYNAMIC), graph.half is not None
            for (node, output), *grads in zip(open_results, plain, weighted, strict=True):
                key = (structure, graph.nodes[node], output)
                shape = shapes(node)[output]
                if grads[0] is None and samples > 1:
                    result = Result(node, output, shape, node._input_metadata[output].dtype, _device(node, output))
                    above = sources and _above(node, sources)
                    chosen[node, output] = self.place_above(result, samples, sources) if above else None
                    if lasting and not above:  # no way leads there: so it is in every graph of this structure
                        self._remembered[key] = (None, False)
                    continue
                on_batch = placed.coupled and _works_on_batch(node)
                spatial = family(node) in SPATIAL
                chosen[node, output] = self._choose(
                    key, shape, samples, grads, weights, on_batch, spatial, lasting, rough
                )
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
        self, results: list[tuple[Node, int]], sources: Sequence[Source], weights: Tensor
    ) -> Sequence[Tensor | None]:
        if not sources:
            return [None] * len(results)
        seeds = []
        for source in sources:
            noise = _noise(source)
            seeds.append(_weighted(noise, source.layout, weights).to(source.device, source.dtype))
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
        weights: Tensor,
        coupled: bool,
        spatial: bool,
        lasting: bool,
        rough: bool,
    ) -> Layout | None:
        options = candidates(shape, samples, self.preferred)
        if samples == 1:
            return options[0].layout(shape, samples)
        whole = [option for option in options if shape[option.axis] == samples]
        plain, weighted = grads
        if plain is None or weighted is None or not bool(plain.any()):  # nothing arrives, nothing will: not remembered
            return whole[0].layout(shape, samples) if whole else None
        misfits = [(_misfit(plain, weighted, option.layout(shape, samples), weights), option) for option in options]
        allowed = 3e-2 if rough else ROUNDING.get(plain.dtype, 3e-2)  # above it may have been half precision
        fitting = [option for misfit, option in misfits if misfit <= allowed]
        if not fitting and coupled:
            fitting = _tells_apart_best(misfits, shape, spatial)
        placement = fitting[0] if fitting else None
        if lasting and len(fitting) <= 1:
            if len(self._remembered) > MAX_REMEMBERED:  # a model whose graph never repeats
                self._remembered.clear()
            self._remembered[key] = (placement, placement is not None and shape[placement.axis] == samples)
        return placement.layout(shape, samples) if placement else None

    def place_above(self, result: Result, samples: int, sources: Sequence[Source]) -> Layout | None:
        """Place the samples in a result computed from a source (flattened predictions): send back from it instead."""
        shape, weights = result.shape, _weights(samples)
        ones = torch.ones(shape, dtype=result.dtype, device=result.device)

        def sent(seed: Tensor) -> Sequence[Tensor | None]:
            places = [edge(source.node, source.output) for source in sources]
            here = [edge(result.node, result.output)]
            return torch.autograd.grad(here, places, [seed], retain_graph=True, allow_unused=True)

        plain = sent(ones)
        if all(grad is None or not bool(grad.any()) for grad in plain):
            return None
        for option in candidates(shape, samples, self.preferred):
            layout = option.layout(shape, samples)
            if layout is None:
                continue
            both = zip(plain, sent(_weighted(ones, layout, weights)), sources, strict=True)
            if all(
                one is None or other is None or _misfit(one, other, source.layout, weights) <= 1e-3
                for one, other, source in both
            ):
                return layout
        return None


ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}
DYNAMIC = frozenset(
    f"{name}Backward"
    for name in (
        "Index", "IndexSelect", "IndexAdd", "IndexCopy", "IndexPut", "IndexPutImpl", "Gather", "Scatter", "ScatterAdd",
        "ScatterReduce", "MaskedSelect", "MaskedScatter", "Sort", "Topk", "Take",
        "PackPaddedSequence", "RepeatInterleave",
    )
)  # fmt: skip


def _noise(source: Source) -> Tensor:
    """Numbers around one, always the same, made where they are used: the output of a language model is large."""
    place = source.device if source.device.type in ("cpu", "cuda") else torch.device("cpu")
    generator = torch.Generator(place).manual_seed(len(source.shape))
    return torch.rand(source.shape, generator=generator, device=place) + 0.5


def _weights(samples: int) -> Tensor:
    """A power of two for each sample, neighbours different."""
    generator = torch.Generator().manual_seed(samples)
    order = torch.cat([torch.randperm(7, generator=generator) for _ in range(samples // 7 + 1)])[:samples]
    return 2.0 ** (order - 3.0)


def _weighted(tensor: Tensor, layout: Layout, weights: Tensor) -> Tensor:
    return (layout.split(tensor) * weights.to(tensor)[:, None]).reshape(tensor.shape)


def _misfit(plain: Tensor, weighted: Tensor, layout: Layout | None, weights: Tensor) -> float:
    """How far the second gradient is from the first times the weights of this layout, relative to the largest entry."""
    if layout is None:
        return float("inf")
    off = (weighted - _weighted(plain, layout, weights)).abs().max()
    return float(off) / max(float(weighted.abs().max()), 1e-300)


def _tells_apart_best(
    misfits: Sequence[tuple[float, Placement]], shape: tuple[int, ...], spatial: bool
) -> list[Placement]:
    """Samples that see each other fit no layout: take the likeliest, unless another one is clearly better.

    Layers on images have samples first by definition, and the last axis of the others counts features.
    """
    last = 0 if spatial else max(0, len(shape) - 2)
    usable = [(misfit, option) for misfit, option in misfits if option.axis <= last]
    if not usable:
        return []
    best = min(usable, key=lambda entry: entry[0])
    return [best[1] if best[0] < 0.5 * usable[0][0] else usable[0][1]]


def _device(node: Node, output: int) -> torch.device:
    device: torch.device = node._input_metadata[output].device
    return device


_UNKNOWN = object()
BATCH_NORM = frozenset({"NativeBatchNormBackward", "CudnnBatchNormBackward", "MiopenBatchNormBackward"})


SPATIAL = BATCH_NORM | {"ConvolutionBackward", "NativeGroupNormBackward"}
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
