"""Individual losses from the graph of the loss alone.

Below the backpropagated number L lie operations that are linear, and below those results T whose values autograd saved,
or that follow from what it saved. So L = sum <T, dL/dT>, and a sample's share is the sum over its entries of value
times gradient: the gradient carries reduction, mask, class weights, accumulation and loss scale. Constants leave no
trace in a graph; so shares count only if they add up to L.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd import loss_values
from cockpit.engine.autograd.graph import Graph, Node, Result, run_backward, shapes, signed
from cockpit.engine.autograd.loss_values import CLASSES, FUSED, SHALLOW, VALUES, kind, passes, wide
from cockpit.engine.autograd.placement import Source
from cockpit.layers.layout import Layout

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
ROUGH = 2e-2  # in half precision
PIECE = 2**20  # entries that are multiplied at once
LARGE = 2**24  # entries of a gradient that is not made for a second try
APART = "samples cannot be told apart"
REMEDY = "use pit.loss(individual_losses) or watch(..., losses=...)"

Place = Callable[[Result], Layout | None]


@dataclass(frozen=True, slots=True)
class Term:
    """A result in which L is linear: its values and the gradient that arrives there."""

    name: str  # of the operation
    value: Tensor
    gradient: Tensor
    result: Result  # where the samples lie as they do in the value
    classes: int = 1  # entries of the result for each of the value, along one axis

    def shares(self, samples: int, sources: Sequence[Source], place: Place) -> Tensor:
        """The sum of each sample's entries, [N]."""
        layout = _layout(self.result, sources, place) if samples > 1 else Layout(1, prod(self.result.shape))
        if layout is None or layout.inner % self.classes:
            shape = list(self.result.shape)
            raise Undefined(f"{APART} in {self.name} of shape {shape}, which the loss takes; {REMEDY}")
        layout = Layout(samples, layout.inner // self.classes)
        value, gradient = self.value, self.gradient.expand(self.value.shape)
        rows = value.shape[0] // samples if value.numel() == samples * layout.inner and value.dim() else 0
        if not rows or value.shape[0] % samples:
            return layout.sums(_product(value, gradient).double())
        step = max(1, PIECE * samples // max(1, value.numel()))  # samples first: some at a time
        pairs = zip(value.split(step * rows), gradient.split(step * rows), strict=True)
        return torch.cat([_product(v, g).reshape(len(v) // rows, -1).sum(1, dtype=torch.float64) for v, g in pairs])

    def sum(self) -> Tensor:
        """Of all entries."""
        return _product(self.value, self.gradient).sum(dtype=torch.float64)


@dataclass(slots=True)
class _Reading:
    """What stands below a backpropagated number."""

    terms: list[tuple[Node, Term]] = field(default_factory=list)
    constants: list[Term] = field(default_factory=list)  # entropies of targets, which a divergence adds
    adds: list[str] = field(default_factory=list)  # operations that may add any other constant


@torch.no_grad()
def individual_losses(
    roots: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    parameters: Mapping[str, Tensor],
    samples: int,
    sources: Sequence[Source],
    place: Place,
) -> Tensor:
    """Each sample's share of the backpropagated number, [N]; to be called before the graph is freed.

    ``place`` tells where the samples are in a result, or None where samples see each other. Raises :class:`Undefined`
    with the operation that cannot be read.
    """
    reasons = []
    for deep in (False, True):
        try:
            readings = [_read(root, seed, deep) for root, seed in zip(roots, seeds, strict=True)]
            of = partial(Term.shares, samples=samples, sources=sources, place=place)
            return _shares(roots, seeds, readings, parameters, of)
        except Undefined as reason:
            reasons.append(reason)
    raise reasons[0]


def results(roots: Sequence[Tensor], seeds: Sequence[Tensor | None]) -> list[Result]:
    """Results in which the loss is linear, as far as they have a shape: the samples are to be found there."""
    readings = [_read(root, seed, False) for root, seed in zip(roots, seeds, strict=True)]
    return [term.result for reading in readings for _, term in reading.terms if term.result.shape]


def _shares(
    roots: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    readings: Sequence[_Reading],
    parameters: Mapping[str, Tensor],
    of: Callable[[Term], Tensor],
) -> Tensor:
    """The sum of what was read, if it is the whole: without the constants that a divergence adds, or with them."""
    leaves = {id(parameter) for parameter in parameters.values()}
    terms = [(term, _of_parameters_alone(node, leaves)) for reading in readings for node, term in reading.terms]
    free, parts = [term.sum() for term, alone in terms if alone], [of(term) for term, alone in terms if not alone]
    if not parts:
        raise Undefined(f"no result below the loss has samples; {REMEDY}")
    given = zip(roots, seeds, strict=True)
    whole = torch.stack([(root.double() * (1 if seed is None else seed)).sum() for root, seed in given]).sum()
    kinds = {root.dtype for root in roots} | {term.result.dtype for term, _ in terms}
    tolerance = max(TOLERANCE.get(dtype, ROUGH) for dtype in kinds)
    constants = [term for reading in readings for term in reading.constants]
    for more in ([], constants) if constants else ([],):
        every = [*parts, *(of(term) for term in more)]
        total, size = torch.stack(every).sum(0), torch.stack([part.abs().sum() for part in [*every, *free]]).sum()
        if bool((total.sum() + sum(free) - whole).abs() <= tolerance * size):
            return total
    adds = sorted({name for reading in readings for name in reading.adds})
    cause = f"{' or '.join(adds)} adds a constant" if adds else "an operation hides a part of it"
    raise Undefined(f"the samples' losses do not add up to the loss: {cause}; {REMEDY}")


def _read(root: Tensor, seed: Tensor | None, deep: bool) -> _Reading:
    """Go down through linear operations with the gradient; ``deep``: also where they could be read themselves."""
    reading, arrived = _Reading(), dict[Node, list[Tensor | None]]()
    if root.grad_fn is None:
        return reading
    _add(arrived, (root.grad_fn, root.output_nr), torch.ones_like(root) if seed is None else seed.to(root))
    for node in _ordered(root.grad_fn, deep):
        grads = arrived.pop(node, [])
        if all(grad is None for grad in grads):
            continue
        if not passes(node, deep):
            reading.terms.append((node, _term(node, grads)))
            continue
        operands = [operand for operand, _ in node.next_functions]
        if kind(node) in loss_values.ADDS and (None in operands or len(operands) < 2):
            reading.adds.append(kind(node).lower())
        reading.constants += _entropies(node, grads)
        if deep and kind(node) in SHALLOW and prod(_operand(node).shape) > LARGE:
            raise Undefined(f"the gradient below {kind(node)} is too large")
        for place, grad in zip(node.next_functions, run_backward(node, grads), strict=True):
            if place[0] is not None and grad is not None:
                _add(arrived, place, grad)
    return reading


def _add(arrived: dict[Node, list[Tensor | None]], place: tuple[Node, int], grad: Tensor) -> None:
    node, output = place
    grads = arrived.setdefault(node, [None] * max(1, len(node._input_metadata)))
    known = grads[output]
    grads[output] = grad if known is None else known + grad


def _ordered(root: Node, deep: bool) -> list[Node]:
    """The linear operations below the root and the first others, each after all linear ones that use it."""
    order, seen, stack = list[Node](), set[Node](), [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if passes(node, deep):
                stack += [(below, False) for below, _ in node.next_functions if below is not None]
    return order[::-1]


def _term(node: Node, grads: Sequence[Tensor | None]) -> Term:
    """Read an operation."""
    name, gradient = kind(node), grads[0]
    try:
        if gradient is None or any(grad is not None for grad in grads[1:]):
            raise Undefined(f"{name} has several results")
        if hasattr(node, "variable"):
            return Term("a parameter", node.variable.detach(), gradient, Result.at(node))
        if name in CLASSES:
            return _of_classes(node, gradient)
        if name in FUSED:
            value = loss_values.fused(node, wide(node._saved_self), "none")
            mean = loss_values.REDUCTIONS[node._saved_reduction] == "mean"
            return Term(name, value, gradient / value.numel() if mean else gradient, _operand(node))
        return Term(name, VALUES[name](node).detach(), gradient, Result.at(node))
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        raise Undefined(f"{name} in the loss cannot be read; {REMEDY}") from error


def _of_classes(node: Node, gradient: Tensor) -> Term:
    """Negative log likelihood: one class of each row."""
    below, ignored = _operand(node), signed(node._saved_ignore_index)
    log_p, target, weight = node._saved_self, node._saved_target, node._saved_weight
    value = F.nll_loss(log_p, target, weight, ignore_index=ignored, reduction="none")
    if loss_values.REDUCTIONS[node._saved_reduction] == "mean":
        gradient = gradient / node._saved_total_weight
    return Term(kind(node), value, gradient, below, below.shape[1 if len(below.shape) > 1 else 0])


def _entropies(node: Node, grads: Sequence[Tensor | None]) -> list[Term]:
    """Constants of a divergence: t log t, in t log t - t x or in t (log t - x)."""
    operands, gradient = [operand for operand, _ in node.next_functions], grads[0]
    outer, inner = (("Sub", "Mul"), operands[1]) if kind(node) == "Sub" else (("Mul", "Sub"), operands[-1])
    if len(operands) < 2 or gradient is None or operands[0] is not None or (kind(node), kind(inner)) != outer:
        return []
    targets = (inner if outer[1] == "Mul" else node)._saved_self
    if inner.next_functions[0][0] is not None or targets is None or targets.shape != gradient.shape:
        return []
    return [Term("KlDiv", torch.special.xlogy(targets, targets), gradient, Result.at(node))]


def _layout(result: Result, sources: Sequence[Source], place: Place) -> Layout | None:
    """Where the samples are: no reshape changes it, nor an operation along rows that belong to one sample."""
    node, output, rows = result.node, result.output, 1
    layout = None
    while layout is None:
        layout = next((s.layout for s in sources if s.node is node and s.output == output), None)
        if layout is None:
            name, (below, out) = kind(node), (node.next_functions or ((None, 0),))[0]
            if below is None or name not in loss_values.PASSED | {"LogSoftmax", "Softmax"}:
                layout = place(Result.at(node, output))
                break
            if name not in loss_values.PASSED:
                shape = shapes(node)[0]
                rows = max(rows, prod(shape[signed(node._saved_dim) % len(shape) :]))
            node, output = below, out
    return layout if layout is None or layout.inner % rows == 0 else None


def _of_parameters_alone(node: Node, leaves: set[int]) -> bool:
    """Whether all that a result is computed from is known to be parameters: a constant or an index may hold data."""
    for below in Graph([node]).nodes:
        leaf = getattr(below, "variable", None)
        if leaf is not None:
            if id(leaf) not in leaves:
                return False
            continue
        if kind(below) not in loss_values.DATALESS:
            return False
        constants = [operand is None for operand, _ in below.next_functions]
        number = getattr(below, "_saved_other", None)
        if any(constants) and not (kind(below) in ("Mul", "Div") and number is not None and number.dim() == 0):
            return False
    return True


def _operand(node: Node) -> Result:
    return Result.at(*node.next_functions[0])


def _product(value: Tensor, gradient: Tensor) -> Tensor:
    """Zero where the gradient is zero, whatever the value."""
    return torch.where(gradient == 0, 0.0, wide(value) * gradient)
