"""What is known about one tracked step: the object that quantities measure.

Parameter-sized tensors exist while the step lasts. Small numbers are put aside for the host (``numbers``) and may be
read later, when training has long gone on: most quantities read nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.balance import noise_of, rounding_of
from cockpit.engine.curvature.lanczos import Eigenpair
from cockpit.engine.curvature.second_order import ACCUMULATED
from cockpit.engine.needs import (
    ABS_MAX,
    DISTANCE,
    DOT_GRAD,
    GRADIENT,
    LOSSES,
    SQ_NORM,
    UPDATE,
    Diagonal,
    Hist1d,
    Hist2d,
    Need,
    NoiseToCurvature,
    SignalToNoise,
    Trace,
    per_sample,
)
from cockpit.engine.statistics.bins import Bins
from cockpit.engine.statistics.lengths import square_distances, square_norm, square_norms
from cockpit.engine.step.backward import NO_ROOM, Pass, mean_of
from cockpit.engine.step.line import Line, LineEnd, unseen_by
from cockpit.engine.step.numbers import Key, Numbers
from cockpit.engine.step.reduction import MEAN_SQ, Reduction, Vectors, curvature_name, stacked
from cockpit.engine.step.settings import Settings
from cockpit.layers.forms import AnyForm, Dense, scale

Numeric = NDArray[np.float64]
LOSS = "loss"
START = "start"  # <g_n, update>
OFF = "off"  # how far the samples' contributions are from the gradient
NOTHING_SEEN = "no backward pass was seen in this step"
UNBALANCED = (
    "what the samples contributed does not add up to its gradient: "
    "something uses it that is not seen, or a hook changes its gradient"
)


@dataclass
class Observation:
    """One step, frozen: parameters, gradient, individual gradients, curvature; an absent fact raises ``Undefined``."""

    step: int
    parameters: Vectors
    gradient: Vectors  # g, before clipping, without the loss scale, as far as one arrived
    passes: list[Pass]
    settings: Settings
    loss_scale: float = 1.0
    learning_rates: list[tuple[float, list[str]]] = field(default_factory=list)  # of each parameter group
    start: Mapping[str, Tensor] = field(default_factory=dict)  # parameters when the run began
    elapsed: float = 0.0
    tracking: float = 0.0
    flaw: str | None = None  # why individual gradients are not those of one step
    update: Vectors | None = None
    line: Line | str | None = None
    root: Tensor | None = None
    leaves: list[Tensor] = field(default_factory=list)  # the parameters themselves, for quantities of the paper's kind
    numbers: Numbers = field(default_factory=Numbers)
    directions: Vectors = field(default_factory=dict)  # the update, where a line begins

    def __post_init__(self) -> None:
        self.batch_size = sum(found.samples for found in self.passes)  #: number of samples of the step
        self.seen = sum(found.seen for found in self.passes)  #: of which individual gradients were taken
        self.half = next((found.half for found in self.passes if found.half is not None), None)
        self.all_names, self.moved_names = list(self.parameters), list[str]()
        self.regularised = {name for found in self.passes for name in found.regularised}
        self.coupled = any(found.coupled for found in self.passes)
        self.sizes = {name: p.numel() for name, p in self.parameters.items()}  #: elements of each parameter
        self._dtypes = {name: p.dtype for name, p in self.parameters.items()}
        self._rounding = {name: rounding_of(p, self.half) for name, p in self.parameters.items()}
        self._candidates: list[str] = []
        self._sum_sq: Vectors = {}
        self._shares = next((found.shares for found in self.passes if isinstance(found.shares, str)), None)
        if self.passes:
            self.numbers.put(LOSS, torch.stack([found.loss.double() for found in self.passes]).sum())
            if self._shares is None:
                shares = [found.shares for found in self.passes if isinstance(found.shares, Tensor)]
                self.numbers.put(LOSSES, torch.cat(shares))

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

    # ---- while the step lasts: compute what the quantities need

    @torch.no_grad()
    def prepare(self, needs: frozenset[Need], line: Mapping[str, Tensor] | None = None) -> None:
        """Compute the numbers that the quantities of this step need."""
        samples = per_sample(needs) or line is not None
        if (GRADIENT in needs or samples) and self.gradient:
            self._put_lengths(GRADIENT, self.gradient)
        if DISTANCE in needs and self.start:
            starts = [self.start[name] for name in self.parameters]
            self.numbers.put(DISTANCE, square_distances(list(self.parameters.values()), starts))
        for need in needs:
            if isinstance(need, Trace):
                self._put_traces(need)
        if samples:
            if self.flaw:
                raise Undefined(self.flaw)
            self._reduce(needs, line or {})

    def _put_lengths(self, key: Key, vectors: Vectors) -> None:
        squares = {name: square_norm(vector) for name, vector in vectors.items()}
        zero = torch.zeros_like(next(iter(squares.values())))
        self.numbers.put(key, torch.stack([squares.get(name, zero) for name in self.all_names]))

    def _reduce(self, needs: frozenset[Need], line: Mapping[str, Tensor]) -> None:
        structural = {name: why for found in self.passes for name, why in found.uncovered.items()}
        took_part = {name for found in self.passes for name in found.off}
        self._candidates = [name for name in self.parameters if name in took_part and name not in structural]
        at_once = len(self.passes) == 1 and all(name in self.passes[0].numbers for name in self._candidates)
        if at_once:
            rows, self._sum_sq = [self.passes[0].numbers[name] for name in self._candidates], self.passes[0].sum_sq
        else:
            reduction = Reduction(needs, self.settings.allowance, line, self._diagonals(needs))
            rows = [self._of_parameter(reduction, name) for name in self._candidates]
            self._sum_sq = reduction.kept
        for key, tensor in stacked(rows).items():
            self.numbers.put(key, tensor)
        factor = self.batch_size / self.loss_scale
        off = [torch.stack([f.off[n].double() for f in self.passes if n in f.off]).sum() for n in self._candidates]
        if off:
            self.numbers.put(OFF, torch.stack(off) * factor)

    def _of_parameter(self, reduction: Reduction, name: str) -> dict[Need, Tensor]:
        parts = [self._scaled(found, name) for found in self.passes]
        return reduction.of(name, parts, self.parameters[name], self._mean(name, parts[0].dtype), self.batch_size)

    def _scaled(self, found: Pass, name: str) -> AnyForm:
        form, theta = found.forms.get(name), self.parameters[name]
        if form is None:  # the parameter took no part: its individual gradients are zero
            return Dense(theta.new_zeros(()).expand(found.held, *theta.shape))
        return scale(form, self.batch_size / self.loss_scale)

    def _mean(self, name: str, dtype: torch.dtype) -> Tensor:
        """Mean of g_n: the gradient without terms to which no sample contributed."""
        terms = [found.terms[name] for found in self.passes if name in found.terms]
        mean = self.gradient[name].detach().to(dtype)
        return mean - torch.stack(terms).sum(0).to(dtype) / self.loss_scale if terms else mean

    def _diagonals(self, needs: frozenset[Need]) -> dict[str, Vectors]:
        found: dict[str, Vectors] = {}
        for need in needs:
            if isinstance(need, Diagonal) and not isinstance(estimates := self._estimates(need), str):
                found[curvature_name(need)] = mean_of(estimates, 1.0)
        return found

    def _put_traces(self, need: Trace) -> None:
        estimates = self._estimates(need.diagonal)
        if not isinstance(estimates, str) and self.parameters:
            zero = next(iter(self.parameters.values())).new_zeros((), dtype=torch.float64)
            rows = [[e[name].double().sum() if name in e else zero for name in self.all_names] for e in estimates]
            self.numbers.put(need, torch.stack([torch.stack(row) for row in rows]))

    @torch.no_grad()
    def moved(self, update: Vectors, leaving: bool = False) -> None:
        """The optimizer has stepped: put its length aside and, for a line that begins here, <g_n, update>."""
        self.update, self.moved_names = update, list(update)
        self.numbers.put(UPDATE, square_norms(list(update.values())))
        if leaving and self._candidates and not self.flaw:
            self.directions = {name: update[name] for name in self._candidates if name in update}
            reduction, rows = Reduction(frozenset(), self.settings.allowance), []
            for name, vector in self.directions.items():
                if any(name in found.off and name not in found.forms for found in self.passes):
                    return  # what samples contributed to it did not fit
                parts = [self._scaled(found, name) for found in self.passes]
                rows.append(reduction.along(parts, self.parameters[name], vector))
            self.numbers.put(START, torch.stack(rows))

    def release(self) -> None:
        """The step is over: let go of everything but the numbers."""
        self.parameters, self.gradient, self.update, self.start = {}, {}, None, {}
        self.root, self.leaves, self._sum_sq = None, [], {}
        for found in self.passes:
            found.forms, found.terms, found.numbers, found.sum_sq, found.gradient = {}, {}, {}, {}, {}
            known = found.curvature.diagonals
            found.curvature.diagonals = {need: value for need, value in known.items() if isinstance(value, str)}

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

    def covered(self) -> list[str]:
        """Parameters with individual gradients."""
        return self.names

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

    def dots(self, direction: str = DOT_GRAD) -> Vectors:
        """<g_n, mean gradient> of each covered parameter, [B]."""
        return self._by_name(direction)

    def mean_sq(self) -> dict[str, float]:
        """||mean_n g_n||^2 of each covered parameter."""
        return dict(zip(self.names, self.rows(MEAN_SQ).tolist(), strict=True))

    def sum_sq(self) -> Vectors:
        """sum_n g_n^2, elementwise; while the step lasts."""
        self._require_samples()
        if any(name not in self._sum_sq for name in self.names):
            raise Undefined("this statistic was not asked for before the backward pass")
        return {name: self._sum_sq[name] for name in self.names}

    def mean_gradient(self) -> Vectors:
        """mean_n g_n of each covered parameter: the gradient without regularisation terms; while the step lasts."""
        self._require_samples()
        return {name: self._mean(name, self.gradient[name].dtype) for name in self.names}

    def abs_max(self) -> float:
        """Largest absolute element of any g_n."""
        self._require_all()
        return float(self.rows(ABS_MAX).max())

    def counts(self, need: Hist1d | Hist2d) -> Numeric:
        """Counts of the covered parameters (``names``), one row for each."""
        return self.rows(need)

    def hist1d(self, bins: Bins) -> dict[str, NDArray[np.int64]]:
        """Counts of each covered parameter."""
        return dict(zip(self.names, self.counts(Hist1d(bins)).astype(np.int64), strict=True))

    def hist2d(self, gradient: Bins, parameter: Bins) -> dict[str, NDArray[np.int64]]:
        """Counts of each covered parameter."""
        return dict(zip(self.names, self.counts(Hist2d(gradient, parameter)).astype(np.int64), strict=True))

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

    def signal_to_noise(self, need: SignalToNoise) -> tuple[float, float]:
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
        return {name: sqrt(square) for name, square in zip(self._names_of(key), self.numbers.values(key), strict=True)}

    def _names_of(self, key: Key) -> list[str]:
        return self.moved_names if key == UPDATE else self.all_names

    # ---- curvature

    def _estimates(self, need: Diagonal) -> list[Vectors] | str:
        """One exact value, or several estimates; summed over the backward passes, without the loss scale."""
        found: list[list[Vectors]] = []
        for seen in self.passes:
            value = seen.curvature.diagonals.get(need, "the curvature was not computed")
            if isinstance(value, str):
                return value
            found.append(value)
        if not found:
            return self.flaw or NOTHING_SEEN
        return [_summed([parts[k] for parts in found], self.loss_scale) for k in range(len(found[0]))]

    def diagonal(self, need: Diagonal) -> list[Vectors]:
        """Diagonal curvature: one exact value, or several estimates; while the step lasts."""
        estimates = self._estimates(need)
        if isinstance(estimates, str):
            raise Undefined(estimates)
        return estimates

    def traces(self, need: Trace) -> dict[str, Numeric]:
        """Trace of the diagonal of each parameter, one for each estimate."""
        if need not in self.numbers:
            self.diagonal(need.diagonal)  # raises the reason
        return dict(zip(self.all_names, self.numbers[need].T, strict=True))

    def noise_to_curvature(self, need: NoiseToCurvature) -> float:
        """Summed over the covered parameters."""
        if need not in self.numbers:
            self.diagonal(need.diagonal)  # raises the reason
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
        if len(slopes) < 2:
            raise Undefined("a batch of one sample has no variance")
        seen, typical = float(losses.mean()), float(np.abs(losses).mean())
        if not self.regularised and abs(seen - self.loss) > unseen_by(self.half) * max(typical, abs(self.loss)):
            raise Undefined("a part of the loss depends on the samples but was not seen; use pit.loss for all of it")
        return LineEnd(seen, float(slopes.mean()), losses.var(ddof=1) / size, slopes.var(ddof=1) / len(slopes))

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


def _summed(parts: list[Vectors], loss_scale: float) -> Vectors:
    """Sum vectors by name, without the loss scale."""
    names = {name: None for part in parts for name in part}
    return {name: torch.stack([part[name] for part in parts if name in part]).sum(0) / loss_scale for name in names}
