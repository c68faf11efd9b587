"""The optimizer's step: parameters before it, and the difference it made, in buffers that are used again."""

from collections.abc import Mapping

import torch
from torch import Tensor

from cockpit.engine.vectors import ROW, inner

Vectors = dict[str, Tensor]
PROBE = 4 * ROW  # elements that are compared one by one


class Motion:
    """Copies of the parameters; fresh memory of that size at every step would cost more than the copy."""

    def __init__(self) -> None:
        self._before: Vectors = {}
        self._update: Vectors = {}
        self._marked: list[str] = []

    @property
    def marked(self) -> bool:
        """Whether a step is under way."""
        return bool(self._marked)

    def mark(self, parameters: Mapping[str, Tensor]) -> None:
        """The optimizer is about to step."""
        self._marked = list(parameters)
        for name, theta in parameters.items():
            before = self._before.get(name)
            if before is None or before.shape != theta.shape or before.device != theta.device:
                self._before[name] = torch.empty_like(theta, requires_grad=False)
        _copy([self._before[name] for name in parameters], [theta.detach() for theta in parameters.values()])

    def take(self, parameters: Mapping[str, Tensor]) -> Vectors:
        """The optimizer has stepped: the update, valid until the next one is taken."""
        found: Vectors = {}
        for name in self._marked:
            if name in parameters:
                theta, before = parameters[name].detach(), self._before[name]
                update = self._update.get(name)
                if update is None or update.shape != before.shape or update.device != before.device:
                    update = self._update[name] = torch.empty_like(before)
                found[name] = torch.sub(theta, before, out=update)
        self._marked = []
        return found

    def forget(self) -> None:
        """The step was never taken."""
        self._marked = []

    def along(self, name: str, update: Tensor, length: float, gradient: Tensor, square: float) -> float | None:
        """The number c with update = c * gradient, to rounding of the parameters; None if there is none.

        ``length`` and ``square`` are the squared norms of the two.
        """
        if not length or not square:
            return None
        product = inner(update, gradient)
        coefficient = product / square
        eps, before = torch.finfo(update.dtype).eps, self._before[name]
        if update.numel() > PROBE:  # all elements by their sum of squares, some of them one by one
            noise = _noise(before, eps)
            if length - product * coefficient > max(4 * eps, 1e-14) * length + noise:
                return None
        piece, model = update.reshape(-1)[:PROBE], gradient.reshape(-1)[:PROBE]
        apart = torch.sub(piece, model, alpha=coefficient)
        off = inner(apart, apart)
        near = _noise(before.reshape(-1)[:PROBE], eps) + (64 * eps) ** 2 * length
        return coefficient if off <= near else None


def _noise(before: Tensor, eps: float) -> float:
    """Squared length of what rounding the parameters adds to their difference."""
    return 2 * eps**2 / 12 * inner(before, before)


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    if targets:
        torch._foreach_copy_(targets, sources)
