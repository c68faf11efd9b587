"""The Hessian of the loss with respect to the network's outputs as columns: H_n = sum_k sign_k s_k s_k^T for sample n.

Three ways, the first that applies: whatever is linear in a log-softmax (cross entropy with any weights, smoothing,
reduction, scaling) has the softmax's Hessian, whose Cholesky factor is known; a loss that is a sum over elements has a
diagonal one; any other is asked of autograd, one product for each output of a sample, and decomposed.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import cross_entropy
from cockpit.engine.autograd.graph import Graph, Node, edge, family, signed
from cockpit.engine.autograd.pull import KEEPS, RESHAPES
from cockpit.engine.autograd.trust import Trust, agree
from cockpit.engine.curvature.loss_hessian import Loss
from cockpit.engine.factors import Columns, Factor, Softmax, Target
from cockpit.engine.placement import Source

MAX_COLUMNS = 1024  # outputs per sample for which the exact GGN is formed
UNITS = 2**23  # numbers of unit vectors that are sent at once
ELEMENTWISE = frozenset(
    f"{name}Backward" for name in ("MseLoss", "BinaryCrossEntropyWithLogits", "HuberLoss", "SmoothL1Loss")
)
PASSED = KEEPS | RESHAPES | {"BackwardHookFunctionBackward"}  # between the output and a loss: the same numbers
PICKS = frozenset({"NllLossBackwardBackward", "NllLoss2DBackwardBackward"})  # of their operands only the first counts
NOT_FINITE = "the curvature of the loss is not finite"


class OutputHessian:
    """The loss between the network's outputs and what is backpropagated."""

    def __init__(
        self,
        roots: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        outputs: Sequence[Source],
        graph: Graph,
        trusted: Trust | None = None,
    ) -> None:
        self._roots, self._seeds, self._graph, self._trusted = list(roots), list(seeds), graph, trusted
        loss = Loss(roots, seeds, graph)
        self._outputs = [_without_log_softmax(loss, output) for output in outputs]
        self._factor: Factor | None = None
        self.reading: cross_entropy.Reading | None = None  #: how to find the factor in the next graph, if that is easy

    def columns(self) -> Columns:
        """Factor it."""
        found = self.factor().columns()
        return found if found.blocks.is_cuda else _looked_at(found)

    def factor(self) -> Factor:
        """What its columns are made of."""
        if self._factor is None:
            self._factor = self._found()
        return self._factor

    def _found(self) -> Factor:
        size = sum(target.size for target in self._outputs)
        if size > MAX_COLUMNS:
            raise Undefined(
                f"{size} outputs per sample: the exact GGN needs as many passes (limit {MAX_COLUMNS}); "
                "use curvature='hutchinson'"
            )
        found: Factor | None = None
        if len(self._outputs) == 1:
            losses, target = self._losses_of(self._outputs[0])
            kinds = {family(loss) for loss in losses}
            if kinds == {"LogSoftmaxBackward"}:
                found = self._softmax(losses, target)
            elif len(losses) == 1 and kinds <= ELEMENTWISE:
                found = self._elementwise(losses[0], target)
        return self._general() if found is None else found

    def _losses_of(self, output: Target) -> tuple[list[Node], Target]:
        """The operations that use the output, behind some that only pass it on, and what they are given."""
        at = output
        while True:
            users = [user for user, _, result in self._graph.users.get(at.node, ()) if result == at.output]
            if len(users) != 1 or family(users[0]) not in PASSED or len(users[0]._input_metadata) != 1:
                return users, at
            meta = users[0]._input_metadata[0]
            at = Target(users[0], 0, tuple(meta.shape), output.layout, meta.dtype)

    def _gradient(self, node: Node, output: int) -> Tensor:
        with torch.enable_grad():
            return torch.autograd.grad(self._roots, [edge(node, output)], self._seeds, create_graph=True)[0]

    def _softmax(self, nodes: list[Node], target: Target) -> Softmax | None:
        """Several operations may take the same softmax (a mixture of two targets)."""
        first, apart, slopes = nodes[0], _apart(nodes[0], target), self._slopes(nodes)
        if apart is None or slopes is None or len({_dim(node) for node in nodes}) > 1:
            return None  # classes of several samples, or not linear
        log_p = first._saved_result.detach()
        return Softmax(target, log_p.shape[_dim(first)], apart, self._surely_positive(first), log_p, slopes)

    def _slopes(self, nodes: list[Node]) -> tuple[Tensor, ...] | None:
        """Gradients with respect to the results of the operations; None where they depend on these results."""
        if self._trusted is not None and self._surely_positive(nodes[0]):
            quick = cross_entropy.slope(self._roots[0])
            signature = "slope", self._graph.signature
            if self._trusted(signature, lambda: agree([(self._gradient(nodes[0], 0).detach(), quick)])):
                self.reading = cross_entropy.Reading(self._graph.nodes[nodes[0]])
                return (quick,)
        slopes = [self._gradient(node, 0) for node in nodes]
        if any(_depends(slope, nodes) for slope in slopes):
            return None
        return tuple(slope.detach() for slope in slopes)

    def _surely_positive(self, node: Node) -> bool:
        return cross_entropy.above(node, self._roots, self._seeds)

    def _elementwise(self, node: Node, target: Target) -> Columns | None:
        """A sum over elements: one product with the Hessian shows its diagonal."""
        if any(operand is not None for operand, _ in node.next_functions[1:]):
            return None  # the targets have a gradient too
        if _depends(self._gradient(node, 0), [node]):
            return None  # a function of the loss that is not linear
        place, gradient = edge(target.node, target.output), self._gradient(target.node, target.output)
        diagonal = torch.zeros_like(gradient)
        if gradient.requires_grad:
            diagonal = torch.autograd.grad(gradient, [place], torch.ones_like(gradient), retain_graph=True)[0]
        rows = target.gather(diagonal.detach().double())  # [N, C]
        return Columns((target,), rows.abs().sqrt()[None, :, :, None], rows.sign()[None])

    # ---- any other loss

    def _general(self) -> Columns:
        with torch.enable_grad():
            places = [edge(target.node, target.output) for target in self._outputs]
            gradients = torch.autograd.grad(self._roots, places, self._seeds, create_graph=True)
        blocks = _Products(self._outputs, gradients).blocks()
        home = blocks.device
        if home.type == "cuda":  # many small decompositions are slow there
            blocks = blocks.cpu()
        values, vectors = torch.linalg.eigh((blocks + blocks.mT) / 2)
        kept = values.abs() > 1e-13 * values.abs().amax(1, keepdim=True)
        columns = vectors * (values.abs() * kept).sqrt()[:, None, :]  # [N, C, k]
        signs = values.sign() * kept
        return Columns(
            tuple(self._outputs), columns.permute(2, 0, 1)[:, :, None].to(home), signs.mT[:, :, None].to(home)
        )


def _without_log_softmax(loss: Loss, output: Source) -> Target:
    """The operand of a log-softmax that ends the network, where the loss is linear in its result."""
    at = loss.joined(output, lambda node, result: None)
    return Target(at.node, at.output, at.shape, at.layout, at.dtype)


class _Products:
    """Products with the Hessian of the loss, by differentiating its gradient once more."""

    def __init__(self, targets: Sequence[Target], gradients: Sequence[Tensor]) -> None:
        self._targets, self._gradients = targets, gradients
        self._curved = [k for k, gradient in enumerate(gradients) if gradient.requires_grad]
        self._places = [edge(target.node, target.output) for target in targets]
        self._batched = True

    def blocks(self) -> Tensor:
        """[N, C, C] in double precision."""
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
        if self._batched:
            try:
                return self._joined(self._autograd(given, True), len(vectors)).to(vectors)
            except RuntimeError:  # no rule for many vectors at once
                self._batched = False
        one_by_one = [self._joined(self._autograd([g[c] for g in given], False), 0) for c in range(len(vectors))]
        return torch.stack(one_by_one).to(vectors)

    def _autograd(self, given: list[Tensor], batched: bool) -> Sequence[Tensor | None]:
        return torch.autograd.grad(
            [self._gradients[k] for k in self._curved],
            self._places,
            given,
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=batched,
        )

    def _joined(self, tensors: Sequence[Tensor | None], columns: int) -> Tensor:
        lead = (columns,) if columns else ()
        rows = []
        for tensor, target in zip(tensors, self._targets, strict=True):
            filled = self._gradients[0].new_zeros(*lead, *target.shape) if tensor is None else tensor
            rows.append(target.gather(filled.double()))
        return torch.cat(rows, dim=-1)

    def _check_separable(self, blocks: Tensor) -> None:
        """A loss that compares samples with each other has no block per sample."""
        tolerance = 0.2 if self._gradients[0].dtype.itemsize == 2 else 1e-3
        generator = torch.Generator().manual_seed(0)
        probe = torch.randn(blocks.shape[:2], generator=generator, dtype=torch.float64, device="cpu").to(blocks.device)
        expected = torch.einsum("nkc,nc->nk", blocks, probe)
        off = (expected - self(probe[None])[0]).norm()
        if bool(off > tolerance * expected.norm() + 1e-30):
            raise Undefined("the loss couples the samples; use curvature='hessian' or 'hutchinson'")


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


def _dim(node: Node) -> int:
    """Axis of the classes."""
    return signed(node._saved_dim)


def _apart(node: Node, target: Target) -> int | None:
    """How far the classes of a row are from each other among the outputs of a sample; None: rows mix samples."""
    shape: tuple[int, ...] = tuple(node._saved_result.shape)
    layout, dim = target.layout, _dim(node) % len(shape)
    after = prod(shape[dim + 1 :])
    if layout.inner % (shape[dim] * after) == 0:
        return after
    return after // layout.samples if after % (layout.samples * layout.inner) == 0 else None


def _looked_at(found: Columns) -> Columns:
    """Where looking at numbers costs nothing: refuse what is not finite, leave out what is zero."""
    if not bool(torch.isfinite(found.blocks).all()):
        raise Undefined(NOT_FINITE)
    signs = found.signs
    if signs is None:
        return found
    if signs.shape[2] == 1:
        kept = (signs != 0).any(2).any(1)
        if not bool(kept.all()):
            found = Columns(found.targets, found.blocks[kept], signs[kept], found.apart)
            signs = signs[kept]
    if not bool((signs < 0).any()):
        signs = None
    return Columns(found.targets, found.blocks, signs, found.apart)
