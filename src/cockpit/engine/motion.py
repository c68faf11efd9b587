"""The optimizer's step: parameters before it, and the difference it made, in buffers that are used again."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from cockpit.engine import native
from cockpit.engine.tape import Tape
from cockpit.engine.vectors import ROW, inner, square_norms

Vectors = dict[str, Tensor]
PROBE = 4 * ROW  # elements that are compared one by one


class Motion:
    """Copies of the parameters; fresh memory of that size at every step would cost more than the copy.

    ``steady``: it is always given the same tensors, parameters that stay where they are and gradients that are pointed
    elsewhere; so what is done with them is written down once.
    """

    def __init__(self, steady: bool = False) -> None:
        self._steady = steady
        self._tapes: dict[bool, Tape[Tensor]] = {}  # of steps with and without a gradient
        self._before: Vectors = {}
        self._now: Vectors = {}
        self._update: Vectors = {}
        self._marked: list[str] = []
        self._sums: dict[str, list[float]] = {}  # of the last update, see ``native.motion``
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
        not be asked for as a vector; see :meth:`vector` if it is. The same ones at every step if it is steady.
        """
        marked, self._marked = self._marked, []
        self._sums, self._lengths, self._beside = {}, None, gradient is not None
        tape = self._tapes.get(self._beside)
        if tape is not None:
            sums = tape().clone()  # what is on the tape is overwritten at the next step
        else:
            self._now = {name: parameters[name].detach() for name in marked if name in parameters}
            now, before = list(self._now.values()), [self._before[name] for name in self._now]
            beside = None if gradient is None else [gradient[name] for name in self._now]
            if not _loose(now, before, beside or []):
                return {name: self.vector(name) for name in self._now}
            rooms = [None if name in spared else self._room(name) for name in self._now]
            sums = self._taken(partial(native.motion, now, before, rooms, beside, PROBE), beside or [])
        self._sums, self._lengths = dict(zip(self._now, sums.tolist(), strict=True)), sums[:, 0]
        return {name: self._update[name] for name in self._now if name not in spared}

    def _taken(self, motion: Callable[[], Tensor], moving: list[Tensor]) -> Tensor:
        if not self._steady:
            return motion()
        tape = self._tapes[self._beside] = Tape(motion, moving)
        return tape.result.clone()

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
        found: dict[str, float] = {}
        for name in names:
            product, noise, square, off, near = self._followed(name, gradient[name], squares[name])
            factor, length, eps = product / square, lengths[name], torch.finfo(self._now[name].dtype).eps
            rounding = 2 * eps**2 / 12  # what rounding the parameters adds to their difference, for each squared length
            if self._now[name].numel() > PROBE:  # all elements by their sum of squares, some of them one by one
                room = max(4 * eps, 1e-14) * length + rounding * noise
                if length - product * factor > room:
                    continue
            if off <= rounding * near + (64 * eps) ** 2 * length:
                found[name] = factor
        return found

    def _followed(self, name: str, gradient: Tensor, square: float) -> list[float]:
        """<update, gradient>, ||before||^2, ||gradient||^2; what is left beside the gradient, and ||before||^2, both of
        the first elements.
        """
        if self._sums and self._beside:
            return self._sums[name][1:]
        update, before = self.vector(name), self._before[name]
        product = inner(update, gradient)
        piece, model, start = (v.reshape(-1)[:PROBE] for v in (update, gradient, before))
        apart = torch.sub(piece, model, alpha=product / square)
        return [product, inner(before, before), square, inner(apart, apart), inner(start, start)]


def _loose(*groups: Sequence[Tensor]) -> bool:
    """Whether compiled loops can run over all of them, element by element."""
    return native.usable(*(v for group in groups for v in group)) and all(
        v.is_contiguous() for group in groups for v in group
    )


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    if targets:
        torch._foreach_copy_(targets, sources)
