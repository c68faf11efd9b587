"""The optimizer's step: parameters before it, and the difference it made, in buffers that are used again."""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from cockpit.engine import native
from cockpit.engine.vectors import ROW, inner, square_norms

Vectors = dict[str, Tensor]
PROBE = 4 * ROW  # elements that are compared one by one


class Motion:
    """Copies of the parameters; fresh memory of that size at every step would cost more than the copy."""

    def __init__(self) -> None:
        self._before: Vectors = {}
        self._now: Vectors = {}
        self._update: Vectors = {}
        self._marked: list[str] = []
        self._sums: dict[str, list[float]] = {}  # ||update||^2, <update, gradient>, ||before||^2 of the last update
        self._lengths: Tensor | None = None  # the first of them
        self._beside = False  # whether the gradient was given

    @property
    def marked(self) -> bool:
        """Whether a step is under way."""
        return bool(self._marked)

    @property
    def names(self) -> list[str]:
        """Parameters of the update that was taken last."""
        return list(self._now)

    def mark(self, parameters: Mapping[str, Tensor]) -> None:
        """The optimizer is about to step."""
        self._marked = list(parameters)
        for name, theta in parameters.items():
            before = self._before.get(name)
            if before is None or before.shape != theta.shape or before.device != theta.device:
                self._before[name] = torch.empty_like(theta, requires_grad=False)
        _copy([self._before[name] for name in parameters], [theta.detach() for theta in parameters.values()])

    def take(
        self,
        parameters: Mapping[str, Tensor],
        gradient: Mapping[str, Tensor] | None = None,
        spared: Collection[str] = (),
    ) -> Vectors:
        """The optimizer has stepped: the update, valid until the next one is taken.

        ``gradient``: what the update may follow, see :meth:`along`. ``spared``: parameters whose update will probably
        not be asked for as a vector; see :meth:`vector` if it is.
        """
        self._now = {name: parameters[name].detach() for name in self._marked if name in parameters}
        self._marked, self._sums, self._lengths, self._beside = [], {}, None, gradient is not None
        now, before = list(self._now.values()), [self._before[name] for name in self._now]
        beside = None if gradient is None else [gradient[name] for name in self._now]
        if not _loose(now, before, beside or []):
            return {name: self.vector(name) for name in self._now}
        rooms = [None if name in spared else self._room(name) for name in self._now]
        sums = native.motion(now, before, rooms, beside)
        self._sums, self._lengths = dict(zip(self._now, sums.tolist(), strict=True)), sums[:, 0]
        return {name: room for name, room in zip(self._now, rooms, strict=True) if room is not None}

    def vector(self, name: str) -> Tensor:
        """The update of one parameter."""
        return torch.sub(self._now[name], self._before[name], out=self._room(name))

    def _room(self, name: str) -> Tensor:
        before, update = self._before[name], self._update.get(name)
        if update is None or update.shape != before.shape or update.device != before.device:
            update = self._update[name] = torch.empty_like(before)
        return update

    def lengths(self) -> Tensor:
        """||update||^2 of each parameter, [P], of the update that was taken last."""
        if self._lengths is None:
            return square_norms([self._update[name] for name in self._now])
        return self._lengths

    def forget(self) -> None:
        """The step was never taken."""
        self._marked = []

    def along(self, gradient: Vectors, lengths: Mapping[str, float], squares: Mapping[str, float]) -> dict[str, float]:
        """The numbers c with update = c * gradient, to rounding of the parameters, where there is one.

        ``lengths`` and ``squares`` are the squared norms of the two.
        """
        names = [name for name in gradient if lengths[name] and squares[name]]
        if not names:
            return {}
        products, noises = self._products(names, gradient)
        factors = [products[name] / squares[name] for name in names]
        eps = torch.finfo(self._now[names[0]].dtype).eps
        rounding = 2 * eps**2 / 12  # what rounding the parameters adds to their difference, for each squared length
        found: dict[str, float] = {}
        rest = self._residuals(names, gradient, factors)
        for name, factor, (off, near) in zip(names, factors, rest, strict=True):
            length = lengths[name]
            if self._now[name].numel() > PROBE:  # all elements by their sum of squares, some of them one by one
                room = max(4 * eps, 1e-14) * length + rounding * noises[name]
                if length - products[name] * factor > room:
                    continue
            if off <= rounding * near + (64 * eps) ** 2 * length:
                found[name] = factor
        return found

    def _products(self, names: list[str], gradient: Vectors) -> tuple[dict[str, float], dict[str, float]]:
        """<update, gradient> and ||before||^2."""
        if self._sums and self._beside:
            return {name: self._sums[name][1] for name in names}, {name: self._sums[name][2] for name in names}
        products = {name: inner(self.vector(name), gradient[name]) for name in names}
        large = [name for name in names if self._now[name].numel() > PROBE]
        return products, {name: inner(self._before[name], self._before[name]) for name in large}

    def _residuals(self, names: list[str], gradient: Vectors, factors: list[float]) -> list[list[float]]:
        """||update - factor * gradient||^2 and ||before||^2, of the first elements."""
        if self._sums and self._beside:
            now, before, slope = ([v[name] for name in names] for v in (self._now, self._before, gradient))
            found: list[list[float]] = native.residuals(now, before, slope, factors, PROBE).tolist()
            return found
        rest = []
        for name, factor in zip(names, factors, strict=True):
            piece, model, start = (v[name].reshape(-1)[:PROBE] for v in (self._update, gradient, self._before))
            apart = torch.sub(piece, model, alpha=factor)
            rest.append([inner(apart, apart), inner(start, start)])
        return rest


def _loose(*groups: Sequence[Tensor]) -> bool:
    """Whether compiled loops can run over all of them, element by element."""
    return native.usable(*(v for group in groups for v in group)) and all(
        v.is_contiguous() for group in groups for v in group
    )


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    if targets:
        torch._foreach_copy_(targets, sources)
