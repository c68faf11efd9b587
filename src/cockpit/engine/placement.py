"""Find out where the samples are in every intermediate result, by asking autograd rather than guessing from shapes.

A gradient is sent back twice, the second time with a weight for each sample. Where samples are told apart, what arrives
the second time is what arrived the first time, times the weight of its sample: this shows which axis counts samples,
also for time first, flattened, folded or broadcast tensors. Weights are powers of two, so that rounding is the same.
Done once for each structure of the graph, then remembered, unless data decide what goes where (indexing, routing).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Graph, Node, Path, Result, edge, family, shapes
from cockpit.engine.autograd.memory import give_back
from cockpit.layers.layout import Layout, Placement, candidates

ROUNDS = 8
MAX_REMEMBERED = 100_000
SMALL, SHARES = 2**24, 4  # bytes of gradients that may be held twice; into how many groups more of them are divided
PIECE = 2**20  # elements that are compared at once


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
            chosen |= self._ask(graph, structure, open_results, samples, sources, placed.coupled)
        for node in nodes:
            placed.nodes[node] = tuple(chosen[node, output] for output in range(len(shapes(node))))

    def _ask(
        self,
        graph: Graph,
        structure: int,
        results: list[tuple[Node, int]],
        samples: int,
        sources: Sequence[Source],
        coupled: bool,
    ) -> dict[tuple[Node, int], Layout | None]:
        """Send gradients back; of the second ones only a group is held at a time, and the first ones are let go."""
        weights, lasting, rough = _weights(samples), not graph.find(DYNAMIC), graph.half is not None
        found: dict[tuple[Node, int], Layout | None] = {}
        groups = _groups(results, graph) if lasting else [results]  # what is asked at every step is asked in one go
        for group in groups:
            first = dict(zip(group, self._probe(group, sources, torch.ones_like(weights)), strict=True))
            give_back()
            second = dict(zip(group, self._probe(group, sources, weights), strict=True))
            for node, output in group:
                key = (structure, graph.nodes[node], output)
                grads = [first.pop((node, output)), second.pop((node, output))]
                if grads[0] is None and samples > 1:
                    found[node, output] = self._unreached(key, node, samples, sources, lasting)
                else:
                    on_batch, spatial = coupled and _works_on_batch(node), family(node) in SPATIAL
                    found[node, output] = self._choose(
                        key, shapes(node)[output], samples, grads, weights, on_batch, spatial, lasting, rough
                    )
                grads.clear()  # before the next group is sent
        give_back()
        return found

    def _unreached(
        self, key: tuple[int, int, int], node: Node, samples: int, sources: Sequence[Source], lasting: bool
    ) -> Layout | None:
        """No gradient arrives from the sources: the result is computed from them, or has nothing to do with them."""
        output, meta = key[2], node._input_metadata[key[2]]
        if sources and _above(node, sources):
            result = Result(node, output, tuple(meta.shape), meta.dtype, meta.device)
            return self.place_above(result, samples, sources)
        if lasting:  # no way leads there: so it is in every graph of this structure
            self._remembered[key] = (None, False)
        return None

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


def _groups(results: list[tuple[Node, int]], graph: Graph) -> list[list[tuple[Node, int]]]:
    """Results from the top of the graph down, in groups whose gradients take little memory.

    A pass for the first ones ends early; when the last ones are sent, the others have been let go.
    """
    sizes = {result: _nbytes(*result) for result in results}
    most = max(SMALL, sum(sizes.values()) // SHARES, *sizes.values())
    groups: list[list[tuple[Node, int]]] = []
    room = 0
    for result in sorted(results, key=lambda result: graph.nodes[result[0]]):
        if sizes[result] > room or not groups:
            groups.append([])
            room = most
        groups[-1].append(result)
        room -= sizes[result]
    return groups


def _nbytes(node: Node, output: int) -> int:
    meta = node._input_metadata[output]
    return int(prod(meta.shape) * meta.dtype.itemsize)


def _noise(source: Source) -> Tensor:
    """Numbers around one, always the same, made where they are used: the output of a language model is large."""
    place = source.device if source.device.type in ("cpu", "cuda") else torch.device("cpu")
    generator = torch.Generator(place).manual_seed(len(source.shape))
    return torch.rand(source.shape, generator=generator, dtype=torch.float32, device=place) + 0.5


def _weights(samples: int) -> Tensor:
    """A power of two for each sample, neighbours different."""
    generator = torch.Generator().manual_seed(samples)
    sevens = [torch.randperm(7, generator=generator, device="cpu") for _ in range(samples // 7 + 1)]
    return 2.0 ** (torch.cat(sevens)[:samples].float() - 3.0)


def _weighted(tensor: Tensor, layout: Layout, weights: Tensor) -> Tensor:
    return (layout.split(tensor) * weights.to(tensor)[:, None]).reshape(tensor.shape)


def _misfit(plain: Tensor, weighted: Tensor, layout: Layout | None, weights: Tensor) -> float:
    """How far the second gradient is from the first times the weights of this layout, relative to the largest entry."""
    if layout is None:
        return float("inf")
    factors, one, other = weights.to(plain)[:, None], layout.split(plain), layout.split(weighted)
    step = max(1, PIECE * layout.samples // max(1, plain.numel()))  # samples
    parts = zip(one.split(step, 1), other.split(step, 1), factors.split(step), strict=True)
    off = torch.stack([(a * factor).sub_(b).abs_().max() for a, b, factor in parts]).max()
    return float(off) / max(float(torch.linalg.vector_norm(weighted, float("inf"))), 1e-300)


def _tells_apart_best(
    misfits: Sequence[tuple[float, Placement]], shape: tuple[int, ...], spatial: bool
) -> list[Placement]:
    """Samples that see each other fit no layout: take the likeliest, unless another one is clearly better.

    Layers on images have samples first by definition (instance normalisation: among the channels of one image), and the
    last axis of the others counts features.
    """
    last = int(shape[0] == 1) if spatial else max(0, len(shape) - 2)
    usable = [(misfit, option) for misfit, option in misfits if option.axis <= last]
    if not usable:
        return []
    best = min(usable, key=lambda entry: entry[0])
    return [best[1] if best[0] < 0.5 * usable[0][0] else usable[0][1]]


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
