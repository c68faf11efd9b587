"""The diagonal of the generalised Gauss-Newton matrix J^T H J on the user's own graph.

H is the Hessian of the loss with respect to the network's outputs, factored into columns; J^T sends the columns back
through the network, where they are squared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.graph import Graph, edge
from cockpit.engine.autograd.placement import Source
from cockpit.engine.autograd.structures import Structures
from cockpit.engine.autograd.uses import Uses
from cockpit.engine.curvature.factors import MAX_COLUMNS, Columns, Factor
from cockpit.engine.curvature.product import AGREES, Vectors
from cockpit.engine.curvature.sender import Sender
from cockpit.engine.curvature.squares import Squares
from cockpit.layers.forms import wide, wide_type

MAX_COUPLED = 4096  # samples x outputs, where each needs a pass of its own
LEAST = {"cpu": 2**24}  # bytes that columns may take at once, however small the net; a cache is small
LEAST_ELSEWHERE = 2**26
SHARE = 0.25  # of the memory of the network's results that they may take
COUPLED = "batch normalisation in training mode couples the samples"


@dataclass(frozen=True, slots=True)
class Network:
    """Where samples are in a graph, and which operations use which parameter."""

    graph: Graph
    parameters: Mapping[str, Tensor]
    outputs: Sequence[Source]
    uses: Uses


@dataclass(slots=True)
class Memory:
    """What is remembered from step to step."""

    structures: Structures = field(default_factory=Structures)  # whether columns arrive as autograd sends them
    looped: set[str] = field(default_factory=set)  # operations that take columns one by one
    eigenvector: Tensor | None = None  # of the last search, several mixed: the next starts near them


class GaussNewton:
    """Columns of the loss, sent back through the network and squared."""

    def __init__(self, factor: Factor, network: Network, memory: Memory) -> None:
        self._factor, self._net, self._memory = factor, network, memory

    @property
    def large(self) -> bool:
        """Whether there are too many columns for the exact diagonal, but not for mixtures of them."""
        return not isinstance(self._factor, Columns) and self._factor.target.size > MAX_COLUMNS

    @torch.no_grad()
    def diagonal(self) -> Vectors:
        """Exact: the squares of all columns, summed."""
        columns = self._factor.columns()
        if self._net.uses.coupled:
            return self._coupled_diagonal(columns)
        sender, squares = self._way(columns.targets)
        count = len(columns)
        step = max(1, -(-count // -(-count // max(1, self._room(sender) // sender.largest)))) if count else 1
        for begin in range(0, count, step):
            end = min(begin + step, count)
            seeds = columns.seeds(columns.rows(begin, end))
            self._send(sender, seeds, columns.signs_of(begin, end), squares)
        return squares.sums

    @torch.no_grad()
    def sampled(self, samples: int, generator: torch.Generator) -> list[Vectors]:
        """Monte Carlo estimates of the diagonal: each sample's columns mixed with random signs."""
        if self._net.uses.coupled:
            raise Undefined(f"{COUPLED}; use curvature='hutchinson'")
        estimates = []
        for _ in range(samples):
            targets, seeds = self._factor.mixed(generator)
            sender, squares = self._way(targets)
            self._send(sender, seeds, None, squares)
            estimates.append(squares.sums)
        return estimates

    def _way(self, targets: Sequence[Source]) -> tuple[Sender, Squares]:
        """What sends columns down from the targets, and what squares them there."""
        uses, tops = self._net.uses, [(target.node, target.output) for target in targets]
        sender = Sender(tops, uses.edges, self._memory.looped)
        return sender, Squares(self._net.parameters, uses, self._room(sender))

    def _room(self, sender: Sender) -> int:
        """Bytes that columns may take at once."""
        kind = next(iter(self._net.parameters.values())).device.type
        return max(LEAST.get(kind, LEAST_ELSEWHERE), int(SHARE * sender.whole))

    def _send(self, sender: Sender, seeds: list[Tensor], signs: Tensor | None, squares: Squares) -> None:
        """Add the squares of some columns."""
        if self._trusted(sender, seeds):
            squares.add(sender(seeds), signs)
            return
        for column in range(len(seeds[0])):
            alone = slice(column, column + 1)
            arriving = sender.by_autograd([seed[alone] for seed in seeds])
            squares.add(arriving, None if signs is None else signs[alone])

    def _trusted(self, sender: Sender, seeds: list[Tensor]) -> bool:
        """Whether columns arrive as autograd would send them: tried once for each structure of the graph.

        A hook of the user's on an intermediate result, which no graph shows, may change gradients.
        """
        structures, graph = self._memory.structures, self._net.graph
        known: bool | None = structures.find(graph, "columns")
        if known is None and (known := _agrees(sender, seeds)) is not None:
            structures.keep(graph, "columns", known)
        return bool(known)

    def _coupled_diagonal(self, columns: Columns) -> Vectors:
        """Samples see each other: each sample's columns are sent back on their own."""
        samples, size = columns.samples, sum(target.size for target in columns.targets)
        if samples * size > MAX_COUPLED:
            raise Undefined(
                f"{COUPLED}: the exact GGN needs {samples} x {size} passes (limit {MAX_COUPLED}); "
                "use curvature='hutchinson'"
            )
        named = self._net.parameters
        total = {name: torch.zeros_like(p, dtype=wide_type(p.dtype)) for name, p in named.items()}
        places = [edge(target.node, target.output) for target in columns.targets]
        for rows, sign in _singly(columns):
            seeds = [seed[0] for seed in columns.seeds(rows[None])]
            grads = torch.autograd.grad(places, list(named.values()), seeds, retain_graph=True, allow_unused=True)
            for name, grad in zip(named, grads, strict=True):
                if grad is not None:
                    total[name].addcmul_(wide(grad), wide(grad) if sign is None else wide(grad) * sign)
        return total


def _singly(columns: Columns) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Each column of each sample alone: [N, C], and its sign."""
    for k in range(len(columns)):
        rows, signs = columns.rows(k, k + 1)[0], columns.signs_of(k, k + 1)
        for n in range(columns.samples):
            if rows.is_cuda or bool(rows[n].any()):
                alone = torch.zeros_like(rows)
                alone[n] = rows[n]
                yield alone, None if signs is None else signs[0, n]


def _agrees(sender: Sender, seeds: list[Tensor]) -> bool | None:
    """Whether autograd sends the same; None where its numbers are not finite.

    Noise is sent in the second of two columns: the first could hide behind the others.
    """
    generator = torch.Generator().manual_seed(len(seeds))
    noise = [torch.randn(2, *seed.shape[1:], generator=generator, dtype=torch.float64, device="cpu") for seed in seeds]
    noise = [one.to(seed) for one, seed in zip(noise, seeds, strict=True)]
    slow = dict(sender.by_autograd([seed[1:] for seed in noise]))
    for node, grads in sender(noise):
        for expected, found in zip(slow.pop(node, [None] * len(grads)), grads, strict=True):
            if expected is None or found is None:
                if expected is not found:
                    return False
                continue
            off, size = float((expected[0] - found[1]).norm()), float(expected.norm())
            if not size < float("inf"):
                return None
            if not off <= AGREES.get(found.dtype, 0.1) * size:
                return False
    return not slow
