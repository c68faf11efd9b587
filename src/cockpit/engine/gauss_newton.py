"""The generalised Gauss-Newton matrix J^T H J on the user's own graph: H is the Hessian of the loss with respect to the
network's outputs, factored into columns; J^T sends the columns back through the network.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.blueprint import Found
from cockpit.engine.curvature import Vectors, random_signs
from cockpit.engine.graph import Graph, Node, edge, family
from cockpit.engine.output_hessian import Columns, OutputHessian
from cockpit.engine.scattered import dense
from cockpit.engine.sending import Grads, Part, Sender, Step
from cockpit.engine.settings import Settings
from cockpit.engine.squares import Squares
from cockpit.engine.trust import agree
from cockpit.layers.forms import wide

MAX_COUPLED = 4096  # samples x outputs, where each needs a pass of its own
SHARE = {"cpu": 0.25}  # of the memory of the network's results that columns may take; a cache is small
SHARE_ELSEWHERE = 0.5
LEAST = 2**24  # bytes


class GaussNewton:
    """Columns of the loss, sent back through the network and squared."""

    def __init__(
        self,
        roots: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        graph: Graph,
        found: Found,
        parameters: Mapping[str, Tensor],
        settings: Settings,
    ) -> None:
        self._graph, self._found, self._parameters, self._settings = graph, found, parameters, settings
        self._hessian = OutputHessian(roots, seeds, found.outputs, graph)
        self._wanted = list(dict.fromkeys(path.node for path in found.paths))
        self._factor: Columns | None = None
        self._sender: Sender | None = None

    @torch.no_grad()
    def diagonal(self) -> Vectors:
        """Exact diagonal: the squares of all columns, summed."""
        columns = self._columns()
        if self._found.placed.coupled:
            return self._coupled_diagonal(columns)
        total = self._squares()
        step, samples = self._at_once(columns, total)
        for begin in range(0, len(columns), step):
            end = min(begin + step, len(columns))
            self._add_squares(total, columns, columns.rows(begin, end), columns.signs_of(begin, end), samples)
        return total.sums()

    @torch.no_grad()
    def sampled(self, samples: int, generator: torch.Generator) -> list[Vectors]:
        """Monte Carlo estimates of the diagonal: columns mixed with random signs."""
        if self._found.placed.coupled:
            raise Undefined("batch normalisation in training mode couples the samples; use curvature='hutchinson'")
        columns = self._columns()
        if columns.signs is not None and bool((columns.signs < 0).any()):
            raise Undefined("the loss is not convex in the network's output; use curvature='ggn' or 'hutchinson'")
        rows, estimates = columns.rows(0, len(columns)), []
        for _ in range(samples):
            mix = random_signs((columns.samples, len(columns)), rows, generator)
            total = self._squares()
            self._add_squares(total, columns, torch.einsum("knc,nk->nc", rows, mix)[None], None, columns.samples)
            estimates.append(total.sums())
        return estimates

    def _columns(self) -> Columns:
        if self._factor is None:
            self._factor = self._hessian.columns()
        return self._factor

    def _squares(self) -> Squares:
        return Squares(self._parameters, self._found.paths, self._found.placed, self._room())

    def _room(self) -> int:
        """Bytes that may be made at a time: a part of what the network's results take."""
        steps = self._sends(self._columns()).steps
        results = (meta for step in steps for meta in step.node._input_metadata)
        share = SHARE.get(self._columns().blocks.device.type, SHARE_ELSEWHERE)
        return max(LEAST, int(share * sum(prod(meta.shape) * meta.dtype.itemsize for meta in results)))

    def _at_once(self, columns: Columns, total: Squares) -> tuple[int, int]:
        """Columns and samples that are sent at once: gradients at one operation stay within the room."""
        sender, room, samples = self._sends(columns), self._room(), columns.samples
        most = room // largest(sender.steps)  # columns of all samples
        if most >= len(columns) or not (sender.divisible and total.divisible and _outermost(columns)):
            return _even(len(columns), most), samples
        fits = room * samples // largest(sender.steps)  # columns of one sample
        step = _even(len(columns), fits)
        return step, _even(samples, fits // step)

    def _add_squares(self, total: Squares, columns: Columns, rows: Tensor, signs: Tensor | None, samples: int) -> None:
        sender, seeds, room = self._sends(columns), columns.seeds(rows), self._room()
        if self._trusted(sender, columns):
            for part in _parts(columns.samples, samples):
                total.begin(signs, part)
                for node, grads in sender([part.of(seed, 1) for seed in seeds], room, part):
                    total.add(node, grads)
                total.end()
            return
        for column in range(len(rows)):
            total.begin(None if signs is None else signs[column : column + 1])
            for node, grads in sender.by_autograd([seed[column : column + 1] for seed in seeds], self._wanted):
                total.add(node, grads)
            total.end()

    def _sends(self, columns: Columns) -> Sender:
        if self._sender is None:
            tops = [(target.node, target.output) for target in columns.targets]
            self._sender = Sender(tops, self._wanted, self._settings.looped)
        return self._sender

    def _trusted(self, sender: Sender, columns: Columns) -> bool:
        """Whether columns arrive as autograd would send them: tried once for each structure of the graph.

        A hook of the user's on an intermediate result, which cannot be seen, may change gradients.
        """
        return self._settings.trusted(("columns", self._graph.signature), lambda: self._agrees(sender, columns))

    def _agrees(self, sender: Sender, columns: Columns) -> bool | None:
        size = sum(target.size for target in columns.targets)
        generator = torch.Generator().manual_seed(size)
        noise = torch.randn(2, columns.samples, size, generator=generator, dtype=torch.float64)
        seeds = columns.seeds(noise.to(columns.blocks.device))
        slow = dict(sender.by_autograd([seed[1:] for seed in seeds], self._wanted))
        parts = [Part(0, columns.samples, columns.samples)]
        if sender.divisible and _outermost(columns):
            parts.insert(0, _parts(columns.samples, 1)[-1])
        for part in parts:
            arrived = 0
            for node, grads in sender([part.of(seed, 1) for seed in seeds], LEAST, part):
                found = agree(_paired(slow.get(node, ()), grads, part))
                if not found:
                    return found
                arrived += 1
            if arrived != len(slow):
                return False
        return True

    def _coupled_diagonal(self, columns: Columns) -> Vectors:
        """Samples see each other (batch normalisation): each sample's columns are sent back on their own."""
        samples, size = columns.samples, sum(target.size for target in columns.targets)
        if samples * size > MAX_COUPLED:
            raise Undefined(
                f"batch normalisation in training mode couples the samples: the exact GGN needs {samples} x {size} "
                f"passes (limit {MAX_COUPLED}); use curvature='hutchinson'"
            )
        total = {name: torch.zeros_like(p, dtype=wide(p[:0]).dtype) for name, p in self._parameters.items()}
        places = [edge(target.node, target.output) for target in columns.targets]
        for rows, signs in _singly(columns):
            seeds = [seed[0] for seed in columns.seeds(rows[None])]
            grads = torch.autograd.grad(
                places, list(self._parameters.values()), seeds, retain_graph=True, allow_unused=True
            )
            for name, grad in zip(self._parameters, grads, strict=True):
                if grad is not None:
                    total[name].addcmul_(wide(grad), wide(grad) if signs is None else wide(grad) * signs)
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


def largest(steps: Sequence[Step]) -> int:
    """Bytes of the largest gradient of one column; those that max-pooling sends are kept without their zeros."""
    scattered: dict[Node, int] = {}
    found = 1
    for step in steps:
        meta, kind = step.node._input_metadata[0], family(step.node)
        own = scattered.get(step.node, prod(meta.shape) * meta.dtype.itemsize)
        found = max(found, own)
        if kind == "MaxPool2DWithIndicesBackward" or (kind == "ReluBackward" and step.node in scattered):
            scattered.update({place[0]: own for _, place in step.operands})
    return found


def _even(count: int, most: int) -> int:
    """The size of pieces of nearly the same size, at most ``most`` each."""
    pieces = -(-count // max(1, most))
    return max(1, -(-count // max(1, pieces)))


def _parts(samples: int, most: int) -> list[Part]:
    return [Part(begin, min(begin + most, samples), samples) for begin in range(0, samples, most)]


def _outermost(columns: Columns) -> bool:
    """Whether each sample lies in one piece where columns begin."""
    return all(t.layout.samples * t.layout.inner == prod(t.shape) for t in columns.targets)


def _paired(slow: Grads, quick: Grads, part: Part) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """The only column of one and the second of the other, at an operation."""
    for one, other in zip(slow, quick, strict=True):
        expected = None if one is None else dense(one)[0]
        given = None if other is None else dense(other, 1, 2)[0]
        yield (expected if expected is None else part.of(expected)), given
