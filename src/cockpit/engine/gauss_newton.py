"""The generalised Gauss-Newton matrix J^T H J on the user's own graph: H is the Hessian of the loss with respect to the
network's outputs, factored into columns; J^T sends the columns back through the network.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.graph import Graph, edge
from cockpit.engine.autograd.trust import agree
from cockpit.engine.blueprint import Found
from cockpit.engine.column_pass import LEAST, ColumnPass, even, outermost, parts_of
from cockpit.engine.double_backward import Vectors, random_signs
from cockpit.engine.factors import Columns
from cockpit.engine.output_hessian import OutputHessian
from cockpit.engine.scattered import dense
from cockpit.engine.sending import Grads, Part
from cockpit.engine.settings import Settings
from cockpit.layers.forms import wide

MAX_COUPLED = 4096  # samples x outputs, where each needs a pass of its own
PIECE = 32  # samples that are compared with autograd's at once, where they can be told apart


class GaussNewton:
    """Columns of the loss, sent back through the network and squared."""

    def __init__(
        self,
        hessian: OutputHessian,
        graph: Graph,
        found: Found,
        parameters: Mapping[str, Tensor],
        settings: Settings,
    ) -> None:
        self._graph, self._found, self._parameters, self._settings = graph, found, parameters, settings
        self._hessian = hessian
        self._factor: Columns | None = None
        self._pass: ColumnPass | None = None

    @torch.no_grad()
    def diagonal(self) -> Vectors:
        """Exact diagonal: the squares of all columns, summed."""
        if not self._found.coupled:
            recorded = self._settings.recorded
            replayed = recorded.diagonal(self._hessian, self._graph, self._found, self._parameters)
            if replayed is not None:
                return replayed
        columns = self._columns()
        if self._found.coupled:
            return self._coupled_diagonal(columns)
        sending = self._sends(columns)
        if self._trusted(sending, columns):
            self._settings.recorded.saw("diagonal", self._found.structure)
            return sending.diagonal(columns)
        return self._by_autograd(sending, columns, columns.rows(0, len(columns)), columns.signs_of(0, len(columns)))

    @torch.no_grad()
    def sampled(self, samples: int, generator: torch.Generator) -> list[Vectors]:
        """Monte Carlo estimates of the diagonal: columns mixed with random signs."""
        if self._found.coupled:
            raise Undefined("batch normalisation in training mode couples the samples; use curvature='hutchinson'")
        columns = self._columns()
        if columns.signs is not None and bool((columns.signs < 0).any()):
            raise Undefined("the loss is not convex in the network's output; use curvature='ggn' or 'hutchinson'")
        rows, estimates, sending = columns.rows(0, len(columns)), [], self._sends(columns)
        for _ in range(samples):
            mix = random_signs((columns.samples, len(columns)), rows, generator)
            mixed = torch.einsum("knc,nk->nc", rows, mix)[None]
            if self._trusted(sending, columns):
                total = sending.squares()
                sending.add(total, columns, mixed, None, columns.samples)
                estimates.append(total.sums())
            else:
                estimates.append(self._by_autograd(sending, columns, mixed, None))
        return estimates

    def _columns(self) -> Columns:
        if self._factor is None:
            self._factor = self._hessian.columns()
        return self._factor

    def _sends(self, columns: Columns) -> ColumnPass:
        if self._pass is None:
            found = self._found
            self._pass = ColumnPass(found.paths, found.placed, columns, self._parameters, self._settings.looped)
        return self._pass

    def _by_autograd(self, sending: ColumnPass, columns: Columns, rows: Tensor, signs: Tensor | None) -> Vectors:
        """Column by column, as autograd sends them."""
        total, seeds = sending.squares(), columns.seeds(rows)
        for column in range(len(rows)):
            total.begin(None if signs is None else signs[column : column + 1])
            alone = [seed[column : column + 1] for seed in seeds]
            for node, grads in sending.sender.by_autograd(alone, sending.wanted):
                total.add(node, grads)
            total.end()
        return total.sums()

    def _trusted(self, sending: ColumnPass, columns: Columns) -> bool:
        """Whether columns arrive as autograd would send them: tried once for each structure of the graph.

        A hook of the user's on an intermediate result, which cannot be seen, may change gradients.
        """
        return self._settings.trusted(("columns", self._graph.signature), lambda: self._agrees(sending, columns))

    def _agrees(self, sending: ColumnPass, columns: Columns) -> bool | None:
        sender, size = sending.sender, sum(target.size for target in columns.targets)
        generator = torch.Generator().manual_seed(size)
        noise = torch.randn(2, columns.samples, size, generator=generator, dtype=torch.float64, device="cpu")
        seeds = columns.seeds(noise.to(columns.blocks.device))
        slow = dict(sender.by_autograd([seed[1:] for seed in seeds], sending.wanted))
        parts = [Part(0, columns.samples, columns.samples)]
        if sender.divisible and outermost(columns):
            parts = [parts_of(columns.samples, 1)[-1], *parts_of(columns.samples, even(columns.samples, PIECE))]
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


def _paired(slow: Grads, quick: Grads, part: Part) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """The only column of one and the second of the other, at an operation."""
    for one, other in zip(slow, quick, strict=True):
        expected = None if one is None else dense(one)[0]
        given = None if other is None else dense(other, 1, 2)[0]
        yield (expected if expected is None else part.of(expected)), given
