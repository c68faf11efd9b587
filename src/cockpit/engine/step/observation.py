"""What is known about one tracked step: the object that quantities measure.

Parameter-sized tensors exist while the step lasts. Small numbers are put aside for the host (``numbers``) and may be
read later, when training has long gone on: most quantities read nothing else.
"""

from functools import cached_property
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray

from cockpit.core.errors import Undefined
from cockpit.core.record import percent
from cockpit.engine.autograd.balance import noise_of
from cockpit.engine.curvature.lanczos import Eigenpair
from cockpit.engine.curvature.second_order import ACCUMULATED
from cockpit.engine.needs import ABS_MAX, DOT_GRAD, LOSSES, SQ_NORM, UPDATE, Diagonal, Need, Trace
from cockpit.engine.statistics import Statistic
from cockpit.engine.step.backward import NO_ROOM
from cockpit.engine.step.line import LineEnd, unseen_by
from cockpit.engine.step.numbers import Key
from cockpit.engine.step.prepared import LOSS, NOTHING_SEEN, OFF, START, Prepared
from cockpit.engine.step.reduction import MEAN_SQ, Vectors

Numeric = NDArray[np.float64]
UNBALANCED = (
    "what the samples contributed does not add up to its gradient: "
    "something uses it that is not seen, or a hook changes its gradient"
)


class Observation(Prepared):
    """One step, frozen: parameters, gradient, individual gradients, curvature; an absent fact raises ``Undefined``."""

    # ---- the loss

    @property
    def loss(self) -> float:
        """The number that was backpropagated, summed over the backward passes of the step."""
        if LOSS not in self.numbers:
            raise Undefined(self.flaw or NOTHING_SEEN)
        return self.numbers.values(LOSS)[0] / self.loss_scale

    @cached_property
    def losses(self) -> Numeric:
        """Individual losses, [B]; their mean is the data part of the loss."""
        if self._shares is not None or LOSSES not in self.numbers:
            raise Undefined(self._shares or self.flaw or NOTHING_SEEN)
        return self.numbers[LOSSES] * (self.batch_size / self.loss_scale)

    # ---- individual gradients

    @cached_property
    def names(self) -> list[str]:
        """Covered parameters: the rows of per-sample numbers."""
        return [name for name, kept in zip(self._candidates, self._balanced, strict=True) if kept]

    @cached_property
    def _balanced(self) -> NDArray[np.bool_]:
        """Whether the samples' contributions to each candidate add up to its gradient, to rounding."""
        if not self._candidates or OFF not in self.numbers:
            return np.ones(len(self._candidates), dtype=bool)
        lengths = np.sqrt(np.maximum(self.numbers[SQ_NORM], 0)).sum(1) * (self.batch_size / max(1, self.seen))
        allowed = np.array([self._rounding[name] for name in self._candidates]) * lengths
        noise = [noise_of(self.half or self._dtypes[name]) for name in self._candidates]  # of gradients that are zero
        kept: NDArray[np.bool_] = ~(self.numbers[OFF] > allowed + np.array(noise) * lengths.max() + 1e-300)
        return kept

    @property
    def uncovered(self) -> dict[str, str]:
        """Parameters without individual gradients, and why."""
        missing = {name: why for found in self.passes for name, why in found.uncovered.items()}
        unbalanced = [name for name, kept in zip(self._candidates, self._balanced, strict=True) if not kept]
        return missing | dict.fromkeys(unbalanced, UNBALANCED)

    @cached_property
    def coverage(self) -> float:
        """Share of all parameter elements that the individual gradients are of."""
        missing = self.uncovered
        left_out = sum(size for name, size in self.sizes.items() if name in missing)
        return 1 - left_out / max(1, sum(self.sizes.values()))

    def rows(self, key: Need) -> Numeric:
        """Numbers of the covered parameters (:attr:`names`), one row for each."""
        self._require(key)
        found = self.numbers[key]
        return found if self._balanced.all() else found[self._balanced]

    def total(self, key: Need) -> Numeric:
        """Per-sample numbers summed over the covered parameters, [B]."""
        summed: Numeric = self.rows(key).sum(axis=0)
        return summed

    def sq_norms(self) -> Vectors:
        """||g_n||^2 of each covered parameter, [B]."""
        return self._by_name(SQ_NORM)

    def dots(self) -> Vectors:
        """<g_n, mean gradient> of each covered parameter, [B]."""
        return self._by_name(DOT_GRAD)

    def mean_sq(self) -> dict[str, float]:
        """||mean_n g_n||^2 of each covered parameter."""
        return dict(zip(self.names, self.rows(MEAN_SQ).tolist(), strict=True))

    def elements(self, key: Need) -> Vectors:
        """A statistic of every element of each covered parameter; while the step lasts."""
        self._require_samples()
        known = self._elements.get(key, {})
        if any(name not in known for name in self.names):
            raise Undefined("this statistic was not asked for before the backward pass")
        return {name: known[name] for name in self.names}

    def mean_gradient(self) -> Vectors:
        """mean_n g_n of each covered parameter: the gradient without regularisation terms; while the step lasts."""
        self._require_samples()
        return {name: self._mean(name, self.gradient[name].dtype) for name in self.names}

    def abs_max(self) -> float:
        """Largest absolute element of any g_n."""
        self._require_all()
        return float(self.rows(ABS_MAX).max())

    def squares(self) -> dict[str, float]:
        """sum_n ||g_n||^2 of each covered parameter, estimated where only some samples were seen."""
        return dict(zip(self.names, (self.rows(SQ_NORM).sum(1) * self._share).tolist(), strict=True))

    def sum_of_squares(self) -> float:
        """sum_n ||g_n||^2 over all covered parameters."""
        return sum(self.squares().values())

    @property
    def _share(self) -> float:
        return self.batch_size / max(1, self.seen)

    def scatter(self) -> tuple[float, float, float]:
        """||g||^2, sum_n ||g_n||^2 / ||g||^2 and sum_n <g_n, g>^2 / ||g||^4, with g the mean of g_n."""
        mean = sum(self.mean_sq().values())
        norms, along = self.sum_of_squares(), float(np.square(self.total(DOT_GRAD)).sum()) * self._share
        return (mean, norms / mean, along / mean / mean) if mean else (0.0, 0.0, 0.0)

    def signal_to_noise(self, need: Statistic) -> tuple[float, float]:
        """Sum of the ratios g_j^2 / var_j, and how many there are."""
        if self.batch_size < 2 and not self.flaw:
            raise Undefined("a batch of one sample has no variance")
        self._require_all()
        ratios, count = self.rows(need).sum(axis=0)
        return float(ratios), float(count)

    # ---- lengths

    def norms(self, key: Key) -> dict[str, float]:
        """Euclidean length of the ``GRADIENT``, the ``UPDATE`` or the ``DISTANCE`` of each parameter."""
        if key not in self.numbers:
            raise Undefined("the optimizer took no step" if key == UPDATE else self.flaw or NOTHING_SEEN)
        names = self.moved_names if key == UPDATE else self.all_names
        return {name: sqrt(square) for name, square in zip(names, self.numbers.values(key), strict=True)}

    # ---- curvature

    def diagonal(self, need: Diagonal) -> list[Vectors]:
        """Diagonal curvature: one exact value, or several estimates; while the step lasts."""
        estimates = self._estimates(need)
        if isinstance(estimates, str):
            raise Undefined(estimates)
        return estimates

    def kind_of(self, need: Diagonal) -> str:
        """Which curvature it is: an exact one may have been too large."""
        return "ggn_mc" if any(need in found.curvature.estimated for found in self.passes) else need.kind

    def traces(self, need: Trace) -> dict[str, Numeric]:
        """Trace of the diagonal of each parameter, one for each estimate."""
        if need not in self.numbers:
            self.diagonal(need.diagonal)  # raises the reason
        return dict(zip(self.all_names, self.numbers[need].T, strict=True))

    def noise_to_curvature(self, need: Statistic, diagonal: Diagonal) -> float:
        """Summed over the covered parameters."""
        if need not in self.numbers:
            self.diagonal(diagonal)  # raises the reason
        return float(self.rows(need).sum()) * self._share

    def eigenpair(self) -> Eigenpair:
        """Largest eigenvalue of the mini-batch Hessian."""
        if len(self.passes) > 1:
            raise Undefined(ACCUMULATED)
        pair = self.passes[0].curvature.eigenpair if self.passes else None
        if isinstance(pair, str) or pair is None:
            raise Undefined(pair or self.flaw or NOTHING_SEEN)
        return Eigenpair(pair.value / self.loss_scale, pair.vector, pair.products, pair.residual / self.loss_scale)

    # ---- along the step

    def length(self) -> float:
        """Length of the update."""
        return sqrt(sum(self.numbers.values(UPDATE)))

    def end(self, length: float, key: str) -> LineEnd:
        """Loss and slope here along a step of the given length, with the variance of their means (the data part)."""
        if key == START and START not in self.numbers and any(found.crowded for found in self.passes):
            raise Undefined(NO_ROOM)
        losses, slopes, size = self.losses, self.total(key) / length, self.batch_size
        if self.uncovered:
            share = percent(self.coverage)
            raise Undefined(f"it needs individual gradients of all elements; {share} have them, see explain()")
        if len(slopes) < 2:
            raise Undefined("a batch of one sample has no variance")
        seen, typical = float(losses.mean()), float(np.abs(losses).mean())
        if not self.regularised and abs(seen - self.loss) > unseen_by(self.half) * max(typical, abs(self.loss)):
            raise Undefined("a part of the loss depends on the samples but was not seen; use pit.loss for all of it")
        spread, scatter = float(losses.var(ddof=1)), float(slopes.var(ddof=1))
        return LineEnd(seen, float(slopes.mean()), spread / size, scatter / len(slopes))

    # ---- helpers

    def _require_samples(self) -> None:
        if self.flaw:
            raise Undefined(self.flaw)
        if not self.batch_size:
            raise Undefined(NOTHING_SEEN)
        if not self.names:
            why = "; ".join(sorted(set(self.uncovered.values()))) or "none was used on a batch"
            raise Undefined(f"no parameter has individual gradients: {why}")

    def _require(self, key: Key) -> None:
        self._require_samples()
        if key not in self.numbers:
            raise Undefined("this statistic was not asked for before the backward pass")

    def _require_all(self) -> None:
        if self.seen < self.batch_size:
            raise Undefined(f"it needs all {self.batch_size} samples of the batch; {self.seen} were taken")

    def _by_name(self, key: Need) -> Vectors:
        return {name: torch.from_numpy(row) for name, row in zip(self.names, self.rows(key), strict=True)}
