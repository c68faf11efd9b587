"""Curvature of one backward pass, computed before autograd frees its graph."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.engine import lanczos
from cockpit.engine.capture import Capture
from cockpit.engine.curvature import HessianProduct, Vectors, hessian_diagonal, hutchinson
from cockpit.engine.gauss_newton import GaussNewton
from cockpit.engine.needs import MAX_EIGENVALUE, Diagonal, Need
from cockpit.engine.settings import Settings


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
        self._hessian: HessianProduct | None = None
        self._newton: GaussNewton | None = None
        self.diagonals: dict[Diagonal, list[Vectors] | str] = {}
        self.eigenpair: lanczos.Eigenpair | str | None = None

    def compute(self, needs: frozenset[Need], impossible: str | None = None) -> None:
        """Fill :attr:`diagonals` and :attr:`eigenpair`, or say why they are impossible."""
        for need in needs:
            if isinstance(need, Diagonal):
                try:
                    if impossible:
                        raise Undefined(impossible)
                    self.diagonals[need] = self._diagonal(need)
                except Exception as error:
                    self.diagonals[need] = why(error)
        if MAX_EIGENVALUE in needs:
            try:
                if impossible:
                    raise Undefined(impossible)
                self.eigenpair = self._largest()
            except Exception as error:
                self.eigenpair = why(error)

    def _diagonal(self, need: Diagonal) -> list[Vectors]:
        if need.kind == "ggn":
            return [self._gauss_newton().diagonal()]
        if need.kind == "ggn_mc":
            return self._gauss_newton().sampled(need.samples, self._generator(1))
        if need.kind == "hessian":
            return [hessian_diagonal(self._product())]
        return hutchinson(self._product(), need.samples, self._generator(2))

    def _product(self) -> HessianProduct:
        if self._hessian is None:
            self._hessian = HessianProduct(self._roots, self._seeds, self._parameters)
        return self._hessian

    def _gauss_newton(self) -> GaussNewton:
        if self._newton is None:
            captured = self._capture
            if isinstance(captured, str):
                raise Undefined(captured)
            if not captured.found.outputs:
                raise Undefined(
                    "the network's output is not known: call the model itself, or pass the loss as a module"
                )
            self._newton = GaussNewton(
                self._roots, self._seeds, captured.graph, captured.found, self._parameters, self._settings
            )
        return self._newton

    def _generator(self, purpose: int) -> torch.Generator:
        """A source of randomness of our own: the global one is the user's."""
        device = next(iter(self._parameters.values())).device
        place = device if device.type in ("cpu", "cuda") else torch.device("cpu")
        return torch.Generator(place).manual_seed((self._key * 7 + purpose) % 2**63)

    def _largest(self) -> lanczos.Eigenpair:
        product, generator, settings = self._product(), self._generator(3), self._settings
        like = next(iter(product.parameters.values()))
        sizes = [p.numel() for p in product.parameters.values()]
        noise = torch.randn(sum(sizes), generator=generator, dtype=like.dtype, device=generator.device).to(like.device)
        start, warm = noise / noise.norm(), settings.eigenvector
        if warm is not None and warm.numel() == start.numel() and warm.device == start.device:
            start = warm.to(start.dtype) + 0.1 * start

        def apply(vector: Tensor) -> Tensor:
            named = zip(product.parameters.items(), vector.split(sizes), strict=True)
            image = product({name: part.view_as(p) for (name, p), part in named})
            return torch.cat([part.reshape(-1) for part in image.values()])

        pair = lanczos.largest(apply, start, generator, asymmetry=0.5 if self._half else 1e-2)
        if pair.value != pair.value:
            raise Undefined("the Hessian is not finite")
        settings.eigenvector = pair.vector
        return pair
