"""Everything that a step needs of second order, computed before autograd frees its graph."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import torch

from cockpit.core.errors import Undefined, why
from cockpit.engine.autograd.eager import full_precision
from cockpit.engine.autograd.graph import Node
from cockpit.engine.curvature import lanczos
from cockpit.engine.curvature.gauss_newton import GaussNewton, Memory, Network
from cockpit.engine.curvature.loss_hessian import Loss
from cockpit.engine.curvature.product import HessianProduct, Vectors, hessian_diagonal, hutchinson
from cockpit.engine.needs import MAX_EIGENVALUE, Diagonal, Need
from cockpit.layers.forms import wide_type
from cockpit.layers.layout import Layout

ACCUMULATED = "the Hessian of several accumulated backward passes cannot be multiplied with"
NO_OUTPUT = "the network's output is not known: call the model itself, or pass the loss as a module"
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
    half: bool = False  # something is in half precision
    accumulated: bool = False  # the step has more than this backward pass
    impossible: str | None = None  # why nothing can be computed


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
        asymmetry = HALF if self._request.half else lanczos.ASYMMETRY
        pair = lanczos.largest(self._products().flat, start, generator, asymmetry=asymmetry)
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
