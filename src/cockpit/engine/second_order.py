"""Curvature of one backward pass, computed before autograd frees its graph."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.engine import confined, lanczos
from cockpit.engine.autograd.graph import Graph
from cockpit.engine.autograd.memory import give_back
from cockpit.engine.capture import Capture, loss_input
from cockpit.engine.double_backward import HessianProduct, Product, Vectors, hessian_diagonal, hutchinson
from cockpit.engine.eager import full_precision
from cockpit.engine.gauss_newton import GaussNewton
from cockpit.engine.needs import MAX_EIGENVALUE, Diagonal, Need
from cockpit.engine.output_hessian import OutputHessian
from cockpit.engine.settings import Settings
from cockpit.engine.tangent_layers import Layer
from cockpit.engine.tangents import TangentProduct, chain_of

Found = TypeVar("Found")
LARGE = 2**24  # bytes of the vectors of a search beside which it takes no time to tidy up


class SecondOrder:
    """Computes what is needed, each product and factor once; a failure becomes the reason of what needed it."""

    def __init__(
        self,
        roots: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        parameters: Mapping[str, Tensor],
        capture: Capture | str,
        settings: Settings,
        key: int,
        half: bool,
    ) -> None:
        self._roots, self._seeds, self._parameters, self._capture = roots, seeds, parameters, capture
        self._settings, self._key, self._half = settings, key, half
        self._hessian: Product | None = None
        self._newton: GaussNewton | None = None
        self._loss: OutputHessian | None = None
        self.diagonals: dict[Diagonal, list[Vectors] | str] = {}
        self.eigenpair: lanczos.Eigenpair | str | None = None

    def compute(self, needs: frozenset[Need], impossible: str | None = None) -> None:
        """Fill :attr:`diagonals` and :attr:`eigenpair`, or say why they are impossible.

        What takes products with the Hessian comes first: what they hold is let go before the columns of the GGN are
        made, and those before autograd runs.
        """
        diagonals = [need for need in needs if isinstance(need, Diagonal)]
        with full_precision(next(iter(self._parameters.values())).device.type):
            for need in diagonals:
                if need.kind not in ("ggn", "ggn_mc"):
                    self.diagonals[need] = _attempt(self._of_hessian, need, impossible)
            if MAX_EIGENVALUE in needs:
                self.eigenpair = _attempt(self._largest, self._settings, impossible)
            self._hessian = None
            for need in diagonals:
                if need.kind in ("ggn", "ggn_mc"):
                    self.diagonals[need] = _attempt(self._of_gauss_newton, need, impossible)
            self._newton = self._loss = None
        if MAX_EIGENVALUE in needs:
            self._tidy()

    def _tidy(self) -> None:
        if lanczos.room(self._parameters) >= LARGE:
            give_back()

    def _of_hessian(self, need: Diagonal) -> list[Vectors]:
        if need.kind == "hessian":
            return [hessian_diagonal(self._product())]
        return hutchinson(self._product(), need.samples, self._generator(2))

    def _of_gauss_newton(self, need: Diagonal) -> list[Vectors]:
        if self._newton is None:
            captured = self._seen()
            if not captured.found.outputs:
                raise Undefined(
                    "the network's output is not known: call the model itself, or pass the loss as a module"
                )
            self._newton = GaussNewton(
                self._of_loss(captured), captured.graph, captured.found, self._parameters, self._settings
            )
        if need.kind == "ggn":
            return [self._newton.diagonal()]
        return self._newton.sampled(need.samples, self._generator(1))

    def _of_loss(self, captured: Capture) -> OutputHessian:
        if self._loss is None:
            outputs, trusted = captured.found.outputs, self._settings.trusted
            self._loss = OutputHessian(self._roots, self._seeds, outputs, captured.graph, trusted)
        return self._loss

    def _seen(self) -> Capture:
        if isinstance(self._capture, str):
            raise Undefined(self._capture)
        return self._capture

    def _product(self) -> Product:
        if self._hessian is None:
            quick = self._recorded() or self._tangents()
            self._hessian = quick or HessianProduct(self._roots, self._seeds, self._parameters)
        return self._hessian

    def _recorded(self) -> Product | None:
        """The quicker product, replayed."""
        captured = self._capture
        if isinstance(captured, str) or not captured.found.outputs or captured.found.coupled:
            return None
        hessian = self._of_loss(captured)
        chain = partial(self._chain, captured.graph)
        try:
            with torch.no_grad():
                return self._settings.recorded.product(hessian, captured.graph, captured.found, chain, self._parameters)
        except Undefined:  # more outputs than the Gauss-Newton matrix is formed for
            return None

    def _chain(self, graph: Graph) -> list[Layer] | None:
        top = loss_input(graph)
        return None if top is None or top.output else chain_of(graph, top.node, self._parameters)

    def _tangents(self) -> TangentProduct | None:
        """The quicker product, where the network is a chain that it knows and autograd agrees."""
        captured = self._capture
        roots = [root.grad_fn for root in self._roots if root.grad_fn is not None]
        graph = Graph(roots) if isinstance(captured, str) else captured.graph
        chain = self._chain(graph)
        if chain is None:
            return None
        quick = TangentProduct.of(self._roots, self._seeds, chain, self._parameters)

        def trial() -> bool | None:
            generator = self._generator(4)
            found = quick.agrees({n: _noise(p, p.numel(), generator).view_as(p) for n, p in self._parameters.items()})
            quick.products = 0
            return found

        if not self._settings.trusted(("tangents", graph.signature), trial):
            return None
        if not isinstance(captured, str):
            self._settings.recorded.saw("product", captured.found.structure)
        return quick

    def _generator(self, purpose: int) -> torch.Generator:
        """A source of randomness of our own: the global one is the user's."""
        device = next(iter(self._parameters.values())).device
        place = device if device.type in ("cpu", "cuda") else torch.device("cpu")
        return torch.Generator(place).manual_seed((self._key * 7 + purpose) % 2**63)

    def _largest(self, settings: Settings) -> lanczos.Eigenpair:
        product, generator = self._product(), self._generator(3)
        self._tidy()
        asymmetry = 0.5 if self._half else 1e-2
        basis = confined.basis(product, self._start(settings.eigenvector, generator))
        pair = lanczos.largest(basis, generator, asymmetry=asymmetry)
        if pair.value != pair.value:
            raise Undefined("the Hessian is not finite")
        settings.eigenvector = pair.vector
        return pair

    def _start(self, warm: Tensor | None, generator: torch.Generator) -> Tensor:
        """Noise, and as much of the eigenvectors of the step before."""
        like = next(iter(self._parameters.values()))
        start = _noise(like, sum(p.numel() for p in self._parameters.values()), generator)
        start /= start.norm()
        if warm is not None and warm.numel() == start.numel() and warm.device == start.device:
            start += warm.to(start.dtype)
        return start


def _attempt(compute: Callable[..., Found], argument: object, impossible: str | None) -> Found | str:
    try:
        if impossible:
            raise Undefined(impossible)
        return compute(argument)
    except Exception as error:
        return why(error)


def _noise(like: Tensor, size: int, generator: torch.Generator) -> Tensor:
    return torch.randn(size, generator=generator, dtype=like.dtype, device=generator.device).to(like.device)
