"""Curvature recorded once for each structure of the graph and replayed, as ``program.py`` does it for statistics.

Rules read tensors that autograd's nodes saved. Here they read them from stand-ins, whose tensors have fixed addresses.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.engine.autograd.graph import Graph, Node
from cockpit.engine.blueprint import Found
from cockpit.engine.branches import side_by_side
from cockpit.engine.column_pass import ColumnPass
from cockpit.engine.cross_entropy import Reading, Seeds
from cockpit.engine.double_backward import Product, Vectors
from cockpit.engine.factors import Factor, Softmax
from cockpit.engine.feed import Draw, Feed
from cockpit.engine.lanczos import Basis
from cockpit.engine.output_hessian import OutputHessian
from cockpit.engine.placement import Placements
from cockpit.engine.program import Programs, Replayer
from cockpit.engine.recorded_basis import RecordedBasis, worthwhile
from cockpit.engine.tangent_layers import Layer
from cockpit.engine.tangents import TangentProduct
from cockpit.engine.twins import Twins

log = logging.getLogger("cockpit")


class Inputs:
    """The loss and the saved tensors of a graph, at fixed addresses."""

    def __init__(self, nodes: Sequence[Node], factor: Factor, draw: Draw) -> None:
        self._nodes, self._given = list(nodes), factor.tensors()
        self.twins = Twins(nodes, draw)
        self._own = [draw(tensor).copy_(tensor) for tensor in self._given]
        self.factor = factor.on(self._own, self.twins.of)

    def freeze(self) -> None:
        """Everything that is needed has been read."""
        copies = self.twins.freeze()
        self._feed = Feed([*self._own, *copies], [*self._given, *(self.twins.read(self._nodes) or copies)])
        self.nbytes = self._feed.nbytes
        self._nodes, self._given = [], ()

    def take(self, loss: Sequence[Tensor], nodes: Sequence[Node]) -> bool:
        """Copy those of another graph; False where it is not of the same kind after all."""
        read = self.twins.read(nodes)
        if read is None:
            return False
        self._feed([*loss, *read])
        return True


class RecordedDiagonal:
    """The diagonal of the Gauss-Newton matrix for graphs of one structure."""

    def __init__(self, inputs: Inputs, found: Found, parameters: Mapping[str, Tensor], reading: Reading | None) -> None:
        self.inputs, self.reading, twins = inputs, reading, inputs.twins
        self._paths = [twins.path(path) for path in found.paths]
        layouts = {twins.of(node): layout for node, layout in found.placed.nodes.items()}
        self._placed, self._parameters = Placements(layouts, found.coupled), dict(parameters)
        self._compute()
        inputs.freeze()
        self._replay: Callable[[], Vectors] = self._compute

    def record(self, replayer: Replayer, device: torch.device) -> None:
        """From here on it is replayed."""
        self._replay = replayer(self._compute, device)

    def __call__(self) -> Vectors:
        """Replay it with the inputs that were taken."""
        found = self._replay()  # overwritten by the next replay, which may belong to the same step
        return dict(zip(found, torch._foreach_mul(list(found.values()), 1.0), strict=True))

    def _compute(self) -> Vectors:
        columns = self.inputs.factor.columns()
        with side_by_side(columns.blocks.device):
            return ColumnPass(self._paths, self._placed, columns, self._parameters, set()).diagonal(columns)


class RecordedProduct(Product):
    """v -> H v for graphs of one structure: a chain of layers under a softmax."""

    def __init__(self, inputs: Inputs, chain: Sequence[Layer], parameters: Mapping[str, Tensor]) -> None:
        super().__init__(parameters)
        self.inputs, twins = inputs, inputs.twins
        self._layers = []
        for layer in chain:
            weights = {slot: twins.path(path) for slot, path in layer.weights.items()}
            self._layers.append(type(layer)(twins.of(layer.node), weights, layer.has_data))
        first = next(iter(parameters.values()))
        self._vector = first.new_zeros(sum(p.numel() for p in parameters.values()))
        self._begin()
        self._compute()
        inputs.freeze()
        self._prepare: Callable[[], object] = self._begin
        self._replay: Callable[[], Tensor] = self._compute
        self._basis: RecordedBasis | None = None

    def record(self, replayer: Replayer, device: torch.device) -> None:
        """From here on it is replayed."""
        self._prepare = replayer(self._begin, device)
        self._replay = replayer(self._compute, device)
        if worthwhile(self._vector):
            self._basis = RecordedBasis(self._replay, self._vector, replayer)

    def begin(self) -> "RecordedProduct":
        """Other inputs were taken: other products."""
        self.products = 0
        self._prepare()
        return self

    def __call__(self, vectors: Vectors) -> Vectors:
        """Return H v."""
        return self.parts(self.flat(torch.cat([vectors[name].reshape(-1) for name in self.parameters])))

    def flat(self, vector: Tensor) -> Tensor:
        """The same for all parameters in one vector."""
        self.products += 1
        self._vector.copy_(vector)
        return self._replay().clone()

    def basis(self, start: Tensor) -> Basis:
        """To be filled by replays, one at a time."""
        return super().basis(start) if self._basis is None else self._basis.begin(start)

    def _begin(self) -> None:
        loss = self.inputs.factor
        assert isinstance(loss, Softmax)
        self._product = TangentProduct(self._layers, self.parameters, loss.gradient(), loss.hessian())

    def _compute(self) -> Tensor:
        return self._product.flat(self._vector)


Recorded = RecordedDiagonal | RecordedProduct
Key = tuple[str, int]


@dataclass
class RecordedCurvature:
    """Recordings by structure; None: it cannot be recorded."""

    programs: Programs
    _sightings: dict[Key, int] = field(default_factory=dict)
    _known: dict[Key, Recorded | None] = field(default_factory=dict)

    def saw(self, what: str, structure: int) -> None:
        """A familiar graph on which ways of our own are right."""
        if structure:
            self._sightings[what, structure] = self._sightings.get((what, structure), 0) + 1

    def diagonal(
        self, hessian: OutputHessian, graph: Graph, found: Found, parameters: Mapping[str, Tensor]
    ) -> Vectors | None:
        """By replaying a recording; None if there is none that fits."""
        if not self._familiar("diagonal", found):
            return None
        factor, nodes = hessian.factor(), list(graph.nodes)

        def make(draw: Draw) -> RecordedDiagonal:
            return RecordedDiagonal(Inputs(nodes, factor, draw), found, parameters, hessian.reading)

        known = self._find(("diagonal", found.structure), factor, nodes, make)
        return known() if isinstance(known, RecordedDiagonal) else None

    def readable(self, structure: int) -> bool:
        """Whether the diagonal can be replayed :meth:`again`."""
        known = self._known.get(("diagonal", structure))
        return isinstance(known, RecordedDiagonal) and known.reading is not None

    @torch.no_grad()
    def again(self, structure: int, roots: Sequence[Tensor], seeds: Seeds, nodes: Sequence[Node]) -> Vectors | None:
        """The diagonal for a graph of which everything is known; None if anything is not as it was."""
        known = self._known.get(("diagonal", structure))
        if not isinstance(known, RecordedDiagonal) or known.reading is None:
            return None
        loss = known.reading.tensors(roots, seeds, nodes)
        return known() if loss is not None and known.inputs.take(loss, nodes) else None

    def product(
        self,
        hessian: OutputHessian,
        graph: Graph,
        found: Found,
        chain_of: Callable[[], list[Layer] | None],
        parameters: Mapping[str, Tensor],
    ) -> Product | None:
        """As :meth:`diagonal`."""
        if not self._familiar("product", found):
            return None
        factor, nodes = hessian.factor(), list(graph.nodes)

        def make(draw: Draw) -> RecordedProduct:
            chain = chain_of()
            if chain is None or not isinstance(factor, Softmax) or factor.target.node is not chain[0].node:
                raise Undefined("not a chain under a softmax")
            return RecordedProduct(Inputs(nodes, factor, draw), chain, parameters)

        known = self._find(("product", found.structure), factor, nodes, make)
        return known.begin() if isinstance(known, RecordedProduct) else None

    def _familiar(self, what: str, found: Found) -> bool:
        key = what, found.structure
        seen = self._sightings.get(key, 0) > self.programs.patience
        return seen and self.programs.replayer is not None and self._known.get(key, True) is not None

    def _find(
        self, key: Key, factor: Factor, nodes: Sequence[Node], make: Callable[[Draw], Recorded]
    ) -> Recorded | None:
        found = self._known.get(key)
        if found is None:
            found = self._recorded(make, factor.tensors()[0].device)
        if found is not None and not found.inputs.take(factor.tensors(), nodes):
            found = None
        self._known[key] = found
        return found

    def _recorded(self, make: Callable[[Draw], Recorded], device: torch.device) -> Recorded | None:
        replayer = self.programs.curved or self.programs.replayer
        if replayer is None:
            return None
        try:
            with self.programs.stock.drawing() as draw:
                new = make(draw)
                if not self.programs.fits(new.inputs.nbytes, 0, device):
                    raise Undefined("there is not enough memory")
                new.record(replayer, device)
        except Exception as error:  # what cannot be recorded is computed step by step
            log.info("curvature cannot be recorded for replay: %s", why(error))
            return None
        return new
