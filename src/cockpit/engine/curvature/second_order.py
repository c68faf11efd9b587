"""Everything that a step needs of second order, computed before autograd frees its graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.engine.autograd.eager import full_precision
from cockpit.engine.autograd.graph import Graph, Node
from cockpit.engine.autograd.samples import Samples, unnoticed
from cockpit.engine.autograd.uses import COMPLEX, Uses
from cockpit.engine.curvature import lanczos
from cockpit.engine.curvature.gauss_newton import GaussNewton, Memory, Network
from cockpit.engine.curvature.loss_hessian import Loss
from cockpit.engine.curvature.product import HessianProduct, Vectors, hessian_diagonal, hutchinson
from cockpit.engine.needs import MAX_EIGENVALUE, Diagonal, Need
from cockpit.layers.forms import wide_type
from cockpit.layers.layout import Layout

ACCUMULATED = "the Hessian of several accumulated backward passes cannot be multiplied with"
NO_OUTPUT = "the network's output is not known: call the model itself, or pass the loss as a module"
CHECKPOINTED = (
    "activation checkpointing recomputes the forward pass whenever its tensors are read, "
    "and curvature reads them many times; leave it out of schedule, or train without checkpointing"
)
SPARSE = "sparse gradients of an embedding have no curvature here: use sparse=False"
LOOKED_UP = frozenset({"EmbeddingBackward", "EmbeddingBagBackward"})
UNKNOWN = "where the samples are was not found out"
Computed = TypeVar("Computed")

HALF = 0.5  # how far products in half precision may be from symmetric


@dataclass(slots=True)
class Curvature:
    """What was computed, or why not."""

    diagonals: dict[Diagonal, list[Vectors] | str] = field(default_factory=dict)
    eigenpair: lanczos.Eigenpair | str | None = None
    estimated: set[Diagonal] = field(default_factory=set)  # by Monte Carlo, where the exact one takes too many columns


@dataclass(frozen=True, slots=True)
class Request:
    """One backward pass that is about to run, and what is known of it."""

    loss: Loss
    network: Network
    problem: str | None  # why it is not known where samples are: nothing but products with the Hessian then
    place: Callable[[Node, int], Layout | None]  # where samples are in any other result
    accumulated: bool = False  # the step has more than this backward pass
    impossible: str | None = None  # why nothing can be computed


def asked(needs: frozenset[Need]) -> bool:
    """Whether anything of the curvature is needed."""
    return MAX_EIGENVALUE in needs or any(isinstance(need, Diagonal) for need in needs)


def curvature_of(
    graph: Graph,
    roots: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    parameters: Mapping[str, Tensor],
    samples: Samples | str,
    needs: frozenset[Need],
    memory: Memory,
    key: int,
    accumulated: bool,
) -> Curvature:
    """Diagonals and the largest eigenvalue, as far as they are needed; ``samples``: or why they are not known."""
    network, problem = Network(graph, parameters, (), Uses(0)), None
    if isinstance(samples, str):
        problem = samples
    else:
        try:
            network = Network(graph, parameters, samples.outputs(), samples.uses())
        except Exception as error:
            problem = why(error)
    request = Request(
        Loss(roots, seeds, graph),
        network,
        problem,
        samples.place if isinstance(samples, Samples) else lambda node, output: None,
        accumulated=accumulated,
        impossible=_impossible(graph, parameters),
    )
    with unnoticed(roots[0].grad_fn):
        return compute(needs, request, memory, abs(key))


def _impossible(graph: Graph, parameters: Mapping[str, Tensor]) -> str | None:
    """Why no curvature can be had."""
    if graph.checkpointed():
        return CHECKPOINTED
    if any(getattr(node, "_saved_sparse", False) for node in graph.find(LOOKED_UP)):
        return SPARSE
    return COMPLEX if any(parameter.is_complex() for parameter in parameters.values()) else None


def compute(needs: frozenset[Need], request: Request, memory: Memory, seed: int) -> Curvature:
    """Compute the needs that are of second order; a failure becomes the reason of what needed it.

    What takes products with the Hessian comes first: what they hold is let go before columns of the Gauss-Newton matrix
    are made, and those before autograd runs.
    """
    pass_ = _Pass(request, memory, seed)
    found = Curvature()
    diagonals = [need for need in needs if isinstance(need, Diagonal)]
    with full_precision(pass_.device.type):
        for need in diagonals:
            if need.kind not in ("ggn", "ggn_mc"):
                found.diagonals[need] = _attempt(partial(pass_.of_hessian, need), request.impossible)
        if MAX_EIGENVALUE in needs:
            impossible = request.impossible or (ACCUMULATED if request.accumulated else None)
            found.eigenpair = _attempt(pass_.largest, impossible)
        pass_.product = None
        for need in diagonals:
            if need.kind in ("ggn", "ggn_mc"):
                found.diagonals[need] = _attempt(partial(pass_.of_gauss_newton, need), request.impossible)
    found.estimated = pass_.estimated
    return found


class _Pass:
    """Each product and factor is made once."""

    def __init__(self, request: Request, memory: Memory, seed: int) -> None:
        self._request, self._memory, self._seed = request, memory, seed
        self._newton: GaussNewton | None = None
        self.estimated: set[Diagonal] = set()
        self.product: HessianProduct | None = None
        self._first = next(iter(request.network.parameters.values()))
        self.device = self._first.device

    def of_hessian(self, need: Diagonal) -> list[Vectors]:
        """The exact diagonal, or estimates of it."""
        if need.kind == "hessian":
            return [hessian_diagonal(self._products())]
        return hutchinson(self._products(), need.samples, self._generator(2))

    def of_gauss_newton(self, need: Diagonal) -> list[Vectors]:
        """The exact diagonal, or estimates of it."""
        if self._newton is None:
            request = self._request
            if request.problem is not None:
                raise Undefined(request.problem)
            if not request.network.outputs:
                raise Undefined(NO_OUTPUT)
            factor = request.loss.factor(request.network.outputs, request.place)
            self._newton = GaussNewton(factor, request.network, self._memory)
        if need.kind == "ggn" and not self._newton.large:
            return [self._newton.diagonal()]
        if need.kind == "ggn":
            self.estimated.add(need)
        return self._newton.sampled(need.samples, self._generator(1))

    def largest(self) -> lanczos.Eigenpair:
        """The search starts at noise, and as much of the eigenvectors of the step before."""
        generator, warm = self._generator(3), self._memory.eigenvector
        size = sum(p.numel() for p in self._request.network.parameters.values())
        kind = wide_type(self._first.dtype)
        start = torch.randn(size, generator=generator, dtype=kind, device=generator.device).to(self.device)
        start /= start.norm()
        if warm is not None and warm.numel() == start.numel():
            start += warm.to(start)
        asymmetry = lanczos.ASYMMETRY if self._request.loss.graph.half is None else HALF
        pair = lanczos.largest(self._products().flat, start, generator, asymmetry)
        self._memory.eigenvector = pair.vector
        return pair

    def _products(self) -> HessianProduct:
        if self.product is None:
            self.product = HessianProduct(self._request.loss, self._request.network.parameters)
        return self.product

    def _generator(self, purpose: int) -> torch.Generator:
        """A source of randomness of our own: the global one is the user's."""
        place = self.device if self.device.type in ("cpu", "cuda") else torch.device("cpu")
        return torch.Generator(place).manual_seed((self._seed * 7 + purpose) % 2**63)


def _attempt(compute: Callable[[], Computed], impossible: str | None) -> Computed | str:
    if impossible:
        return impossible
    try:
        return compute()
    except Exception as error:  # a user's training never breaks because it is watched
        first = f"{error}\n".splitlines()[0].rstrip(".")
        once = not isinstance(error, Undefined) and "derivative for" in first and "not implemented" in first
        return f"it cannot be differentiated twice: {first}" if once else why(error)
