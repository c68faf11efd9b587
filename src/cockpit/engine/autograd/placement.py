"""Where the samples are in the result of an operation, by asking autograd rather than guessing from shapes.

A gradient is sent back twice, the second time with a weight for each sample. Where samples are told apart, the squares
that arrive the second time, summed over a sample, are those of the first time, times the square of its weight: this
shows which axis counts samples, also for time first, flattened, folded or broadcast results. Sums are taken while
autograd runs, so that nothing large is held. Weights are powers of two: rounding is the same both times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Graph, Node, Result, edge, family, shapes
from cockpit.layers.layout import Layout, Placement, candidates

Place = tuple[Node, int]  # a result of an operation
Sums = dict[Placement, Tensor]  # squares of what arrived, summed over each sample, for each way the samples may lie

ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}
ROUGH = 3e-2  # where half precision is involved
BATCH_NORM = frozenset({"NativeBatchNormBackward", "CudnnBatchNormBackward", "MiopenBatchNormBackward"})
SPATIAL = BATCH_NORM | {"ConvolutionBackward", "NativeGroupNormBackward"}
LAYERS = BATCH_NORM | {f"{name}Backward" for name in ("Addmm", "Mm", "Convolution", "Embedding", "NativeGroupNorm")}


@dataclass(frozen=True, slots=True)
class Source(Result):
    """A result whose samples are known: the model's output or the individual losses; [N, C] up to their order."""

    layout: Layout

    @classmethod
    def placed(cls, result: Result, layout: Layout) -> "Source":
        """A result with its layout."""
        return cls(result.node, result.output, result.shape, result.dtype, result.device, layout)

    @property
    def size(self) -> int:
        """C: elements of each sample."""
        return prod(self.shape) // self.layout.samples

    def gather(self, tensor: Tensor) -> Tensor:
        """Samples first: [..., *shape] -> [..., N, C]."""
        lead, at = tensor.shape[: tensor.dim() - len(self.shape)], self.layout
        split = tensor.reshape(*lead, self.size // at.inner, at.samples, at.inner)
        return split.transpose(-3, -2).reshape(*lead, at.samples, self.size)

    def spread(self, rows: Tensor) -> Tensor:
        """Undo :meth:`gather`, in the precision of the result."""
        lead, at = rows.shape[:-2], self.layout
        split = rows.reshape(*lead, at.samples, self.size // at.inner, at.inner).transpose(-3, -2)
        return split.reshape(*lead, *self.shape).to(self.dtype)


@dataclass(frozen=True, slots=True)
class Answer:
    """Where the samples are in a result; ``certain``: in every graph of this structure."""

    placement: Placement | None
    certain: bool


def ask(
    graph: Graph, places: Sequence[Place], samples: int, sources: Sequence[Source], preferred: int
) -> dict[Place, Answer]:
    """Place the samples in results of operations; None: the result does not see the batch."""
    open_places = [(node, out) for node, out in places if candidates(shapes(node)[out], samples, preferred)]
    answers = {place: Answer(None, True) for place in places}
    if not open_places:
        return answers
    probe = _Probe(graph, open_places, samples, sources, preferred)
    weights = _weights(samples)
    once = samples > 1 and graph.checkpointed()  # its forward pass runs again whenever it is asked
    if once:  # by zeros for some of the samples instead
        weights = (weights > 1 if samples > 7 else torch.arange(samples, device="cpu") % 2).to(weights)
    plain = probe.send(weights if once else torch.ones_like(weights))
    weighted = probe.send(weights) if samples > 1 and not once else plain
    coupled = samples > 1 and couples(graph)
    beyond = graph.above(source.node for source in sources)
    layers = graph.find(LAYERS) if coupled else []
    on_layers = graph.above(layers).union(layers)
    for place in open_places:
        options = candidates(shapes(place[0])[place[1]], samples, preferred)
        if place not in plain:  # no way leads there from the sources
            if place[0] in beyond:  # but it is computed from them: a parameter of the loss itself
                answers[place] = Answer(place_above(Result.at(*place), samples, sources, preferred), False)
        elif samples == 1:
            answers[place] = Answer(options[0], False)
        else:
            allowed = ROUGH if graph.half is not None else ROUNDING.get(probe.dtypes[place], ROUGH)
            guess = coupled and place[0] in on_layers
            answers[place] = _chosen(place, options, plain[place], weighted[place], weights**2, allowed, guess)
    return answers


def _chosen(
    place: Place, options: list[Placement], plain: Sums, weighted: Sums, factors: Tensor, allowed: float, guess: bool
) -> Answer:
    shape = shapes(place[0])[place[1]]
    whole = [option for option in options if shape[option.axis] == len(factors)]
    if not any(bool(sums.any()) for sums in plain.values()):  # nothing arrives: it may at another step
        return Answer(whole[0] if whole else None, False)
    misfits = [(_misfit(plain[option], weighted[option], factors), option) for option in options]
    fitting = [option for misfit, option in misfits if misfit <= allowed]
    if not fitting and guess:
        fitting = _tells_apart_best(misfits, shape, family(place[0]) in SPATIAL)
    return Answer(fitting[0] if fitting else None, len(fitting) <= 1)


def _misfit(plain: Tensor, weighted: Tensor, factors: Tensor) -> float:
    off = (plain * factors.to(plain) - weighted).abs().max()
    return float(off) / max(float(weighted.max()), 1e-300)


class _Probe:
    """Sends gradients from the sources and sums what arrives at the places."""

    def __init__(
        self, graph: Graph, places: Sequence[Place], samples: int, sources: Sequence[Source], preferred: int
    ) -> None:
        self._places, self._samples, self._sources, self._preferred = places, samples, sources, preferred
        nodes = {node for node, _ in places}
        below = graph.above(nodes)  # a place that another one is below needs no question of its own
        self._lowest = [place for place in places if place[0] not in below]
        self._passed = [node for node in nodes if node in below]
        self.dtypes = {(node, out): node._input_metadata[out].dtype for node, out in places}

    def send(self, weights: Tensor) -> dict[Place, Sums]:
        """Sums of what arrives, for every place that is reached."""
        arrived: dict[Place, Sums] = {}
        handles = [node.register_prehook(partial(self._arrive, arrived, node)) for node in self._passed]
        seeds = [self._seed(source, weights) for source in self._sources]
        try:
            grads = torch.autograd.grad(
                [edge(source.node, source.output) for source in self._sources],
                [edge(*place) for place in self._lowest],
                seeds,
                retain_graph=True,
                allow_unused=True,
            )
        finally:
            for handle in handles:
                handle.remove()
        for place, grad in zip(self._lowest, grads, strict=True):
            if grad is not None:
                arrived[place] = self._sums(grad)
        return arrived

    def _arrive(self, arrived: dict[Place, Sums], node: Node, grads: tuple[Tensor | None, ...]) -> None:
        for out, grad in enumerate(grads):
            if (node, out) in self.dtypes and grad is not None:
                arrived[node, out] = self._sums(grad)

    def _sums(self, grad: Tensor) -> Sums:
        options = candidates(tuple(grad.shape), self._samples, self._preferred)
        return {option: option.squares(grad.detach(), self._samples) for option in options}

    @staticmethod
    def _seed(source: Source, weights: Tensor) -> Tensor:
        place = source.device if source.device.type in ("cpu", "cuda") else torch.device("cpu")
        generator = torch.Generator(place).manual_seed(len(source.shape))
        dtype = source.dtype if source.dtype.is_floating_point else torch.float32
        noise = torch.empty(source.shape, dtype=dtype, device=place).uniform_(0.5, 1.5, generator=generator)
        source.layout.split(noise).mul_(weights.to(noise)[:, None])
        return noise.to(source.device, source.dtype)


def place_above(result: Result, samples: int, sources: Sequence[Source], preferred: int) -> Placement | None:
    """Place the samples in a result computed from a source (flattened predictions): send back from it instead."""
    shape, weights = result.shape, _weights(samples)
    ones = torch.ones(shape, dtype=result.dtype, device=result.device)

    def sent(seed: Tensor) -> list[Tensor | None]:
        places = [edge(source.node, source.output) for source in sources]
        here = [edge(result.node, result.output)]
        grads = torch.autograd.grad(here, places, [seed], retain_graph=True, allow_unused=True)
        pairs = zip(grads, sources, strict=True)
        return [None if grad is None else source.layout.squares(grad) for grad, source in pairs]

    plain = sent(ones)
    if all(sums is None or not bool(sums.any()) for sums in plain):
        return None
    for option in candidates(shape, samples, preferred):
        layout = option.layout(shape, samples)
        if layout is not None:
            weighted = (layout.split(ones) * weights.to(ones)[:, None]).reshape(shape)
            both = zip(plain, sent(weighted), strict=True)
            if all(a is None or b is None or _misfit(a, b, weights**2) <= 1e-3 for a, b in both):
                return option
    return None


def _weights(samples: int) -> Tensor:
    """A power of two for each sample, neighbours different."""
    generator = torch.Generator().manual_seed(samples)
    sevens = [torch.randperm(7, generator=generator, device="cpu") for _ in range(samples // 7 + 1)]
    return 2.0 ** (torch.cat(sevens)[:samples].float() - 3.0)


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


def couples(graph: Graph) -> bool:
    """Whether samples see each other through batch statistics (instance normalisation is no such case)."""
    return any(getattr(node, "_saved_training", True) and shapes(node)[0][0] != 1 for node in graph.find(BATCH_NORM))
