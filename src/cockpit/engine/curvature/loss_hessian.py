"""The Hessian of the loss with respect to the network's outputs.

Three ways, the first that applies: whatever is linear in a log-softmax (cross entropy with any weights, smoothing,
reduction, scaling) has the softmax's Hessian, whose Cholesky factor is known; a loss that is a sum over elements has a
diagonal one; any other is asked of autograd, one product for each output of a sample, and decomposed.

A network that ends in a log-softmax has a loss that is linear in its output, and no curvature there: the log-softmax is
counted to the loss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.graph import Graph, Node, Result, edge, family, signed
from cockpit.engine.autograd.loss_values import REDUCTIONS, fused
from cockpit.engine.autograd.placement import Source
from cockpit.engine.autograd.pull import KEEPS, RESHAPES, SWAPS
from cockpit.engine.curvature.factors import NOT_FINITE, Closed, Columns, Elementwise, Factor, Softmax, refuse_many
from cockpit.engine.curvature.sender import backward_of_columns
from cockpit.layers.layout import Layout

UNITS = 2**23  # numbers of unit vectors that are sent at once
SOFTMAX = "LogSoftmaxBackward"
JOINED = {SOFTMAX: (), "LogSigmoidBackward": (), "LogBackward": ("SoftmaxBackward", "SigmoidBackward")}
PASSED = KEEPS | RESHAPES | {"BackwardHookFunctionBackward"}  # between the output and a loss: the same numbers
PICKS = frozenset({"NllLossBackwardBackward", "NllLoss2DBackwardBackward"})  # of their operands only the first counts

Seeds = Sequence[Tensor | None]
Place = Callable[[Node, int], Layout | None]
ELEMENTWISE = frozenset(
    f"{name}Backward" for name in ("MseLoss", "BinaryCrossEntropyWithLogits", "HuberLoss", "SmoothL1Loss")
)


@dataclass(frozen=True)
class Loss:
    """What lies between some results of a graph and what is backpropagated."""

    roots: Sequence[Tensor]
    seeds: Seeds
    graph: Graph

    def gradients(self, places: Sequence[tuple[Node, int]]) -> list[Tensor]:
        """Gradients of the backpropagated number, which can be differentiated."""
        edges = [edge(*place) for place in places]
        with torch.enable_grad():
            return list(torch.autograd.grad(list(self.roots), edges, list(self.seeds), create_graph=True))

    def factor(self, outputs: Sequence[Source], place: Place) -> Factor:
        """The factor of its Hessian with respect to the outputs of the network."""
        targets = [self.joined(output, place) for output in outputs]
        if len(targets) == 1:
            closed = self._closed(*self._losses_of(targets[0]))
            if closed is not None:
                return closed
        refuse_many(sum(target.size for target in targets))
        return _General(targets, self.gradients([(target.node, target.output) for target in targets])).columns()

    def parts(self, parameters: Mapping[str, Tensor]) -> list[Closed] | None:
        """Closed forms between which and the parameters all of the network lies; None where there are no such."""
        nodes = self._cut({id(parameter) for parameter in parameters.values()})
        if not nodes:
            return None
        by_target: dict[tuple[Node, int], list[Node]] = {}
        for node in nodes:
            by_target.setdefault(node.next_functions[0], []).append(node)
        found = [self._closed(losses, _whole(*place)) for place, losses in by_target.items()]
        return [part for part in found if part is not None] if None not in found else None

    def _cut(self, leaves: set[int]) -> list[Node]:
        """Known losses that stand between what is backpropagated and all parameters."""
        pending, seen, cut = [root.grad_fn for root in self.roots], set[Node](), list[Node]()
        while pending:
            node: Any = pending.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if id(getattr(node, "variable", None)) in leaves:
                return []
            known = family(node) in ELEMENTWISE or family(node) == SOFTMAX
            if known and node.next_functions[0][0] is not None:
                cut.append(node)
            else:
                pending += [operand for operand, _ in node.next_functions]
        below = [Graph([node.next_functions[0][0]]) for node in cut]
        return [] if any(node in graph for graph in below for node in cut) else cut

    def joined(self, source: Source, place: Place) -> Source:
        """An output of the network, or the operand of a log-softmax that ends it, if the loss is linear in that."""
        node, output, turned = source.node, source.output, False
        while family(node) in PASSED | SWAPS and node.next_functions[0][0] is not None:
            turned = turned or family(node) in SWAPS
            node, output = node.next_functions[0]
        below = JOINED.get(family(node))
        if below is None or _depends(self.gradients([(source.node, source.output)])[0], [source.node, node]):
            return source
        node, output = node.next_functions[0]
        if below:
            if family(node) not in below:
                return source
            node, output = node.next_functions[0]
        layout = place(node, output) if turned else source.layout
        return source if layout is None else Source.placed(Result.at(node, output), layout)

    def _losses_of(self, output: Source) -> tuple[list[Node], Source]:
        """The operations that use the output, behind some that only pass it on, and what they are given."""
        at = output
        while True:
            users = [user for user, _, result in self.graph.users.get(at.node, ()) if result == at.output]
            if len(users) != 1 or family(users[0]) not in PASSED or len(users[0]._input_metadata) != 1:
                return users, at
            at = Source.placed(Result.at(users[0]), output.layout)

    def _closed(self, losses: list[Node], target: Source) -> Closed | None:
        """The closed form of what takes a target, if it has one: several may take the same softmax."""
        kinds = {family(node) for node in losses}
        if kinds == {SOFTMAX} and len({signed(node._saved_dim) for node in losses}) == 1:
            return self._softmax(losses, target)
        if len(losses) == 1 and kinds <= ELEMENTWISE:
            return self._elementwise(losses[0], target)
        return None

    def _softmax(self, nodes: list[Node], target: Source) -> Softmax | None:
        slopes = self.gradients([(node, 0) for node in nodes])
        if any(_depends(slope, nodes) for slope in slopes):
            return None
        log_p = nodes[0]._saved_result.detach()
        dim = signed(nodes[0]._saved_dim) % log_p.dim()
        return Softmax(target, dim, log_p, torch.stack([slope.detach().double() for slope in slopes]).sum(0))

    def _elementwise(self, node: Node, target: Source) -> Elementwise | None:
        if any(operand is not None for operand, _ in node.next_functions[1:]):
            return None  # the targets have a gradient too
        arrived = self.gradients([(node, 0)])[0]
        if _depends(arrived, [node]):
            return None  # a function of the loss that is not linear
        with torch.enable_grad():
            prediction = node._saved_self.detach().double().requires_grad_()
            loss = fused(node, prediction, REDUCTIONS[node._saved_reduction])
            slope = torch.autograd.grad(loss, prediction, arrived.detach().double(), create_graph=True)[0]
            bent = torch.autograd.grad(slope.sum(), prediction)[0] if slope.requires_grad else torch.zeros_like(slope)
        return Elementwise(target, slope.detach().reshape(target.shape), bent.reshape(target.shape), arrived.detach())


class _General:
    """Products with the Hessian of the loss, by differentiating its gradient once more."""

    def __init__(self, targets: Sequence[Source], gradients: Sequence[Tensor]) -> None:
        self._targets, self._gradients = targets, gradients
        self._curved = [k for k, gradient in enumerate(gradients) if gradient.requires_grad]
        self._places = [edge(target.node, target.output) for target in targets]
        self._looped = set[str]()

    def columns(self) -> Columns:
        """Eigenvectors of each sample's block."""
        blocks = self._blocks()
        home = blocks.device
        blocks = blocks.cpu() if home.type == "cuda" else blocks  # many small decompositions are slow there
        values, vectors = torch.linalg.eigh((blocks + blocks.mT) / 2)
        kept = values.abs() > 1e-13 * values.abs().amax(1, keepdim=True)
        columns = vectors * (values.abs() * kept).sqrt()[:, None, :]  # [N, C, k]
        signs = values.sign() * kept
        shaped = columns.permute(2, 0, 1)[:, :, None].to(home), signs.mT[:, :, None].to(home)
        return Columns(tuple(self._targets), *shaped).columns()

    def _blocks(self) -> Tensor:
        """[N, C, C]."""
        samples, size = self._targets[0].layout.samples, sum(target.size for target in self._targets)
        units = torch.eye(size, dtype=torch.float64, device=self._gradients[0].device)
        step = max(1, UNITS // max(1, samples * size))
        parts = [self(part[:, None].expand(-1, samples, -1)) for part in units.split(step)]
        blocks = torch.cat(parts).permute(1, 2, 0)  # product k is column k
        if not bool(torch.isfinite(blocks).all()):
            raise Undefined(NOT_FINITE)
        self._check_separable(blocks)
        return blocks

    def __call__(self, vectors: Tensor) -> Tensor:
        """[k, N, C] -> [k, N, C]."""
        if not self._curved:  # a loss that is linear in the outputs
            return torch.zeros_like(vectors)
        parts = vectors.split([target.size for target in self._targets], dim=2)
        given = [self._targets[k].spread(parts[k]).to(self._gradients[k].dtype) for k in self._curved]
        above = [self._gradients[k] for k in self._curved]
        images = backward_of_columns(above, self._places, given, "loss", self._looped)
        pairs = zip(parts, images, self._targets, strict=True)
        rows = [torch.zeros_like(part) if image is None else target.gather(image) for part, image, target in pairs]
        return torch.cat([row.to(vectors) for row in rows], dim=-1)

    def _check_separable(self, blocks: Tensor) -> None:
        """A loss that compares samples with each other has no block per sample."""
        tolerance = 0.2 if self._gradients[0].dtype.itemsize == 2 else 1e-3
        generator = torch.Generator().manual_seed(0)
        probe = torch.randn(blocks.shape[:2], generator=generator, dtype=torch.float64, device="cpu").to(blocks.device)
        expected = torch.einsum("nkc,nc->nk", blocks, probe)
        off = (expected - self(probe[None])[0]).norm()
        if bool(off > tolerance * expected.norm() + 1e-30):
            raise Undefined("the loss couples the samples; use curvature='hessian' or 'hutchinson'")


def _whole(node: Node, output: int) -> Source:
    """A result seen as one sample: enough for products."""
    result = Result.at(node, output)
    return Source.placed(result, Layout(1, prod(result.shape)))


def _depends(gradient: Tensor, nodes: list[Node]) -> bool:
    """Whether a gradient, with its graph, is a function of the result of one of the operations."""
    pending, seen = [gradient.grad_fn], set()
    while pending:
        at: Node = pending.pop()
        if at is None or at in seen:
            continue
        if at in nodes:
            return True
        seen.add(at)
        operands = [operand for operand, _ in at.next_functions]
        pending += operands[:1] if family(at) in PICKS else operands
    return False
