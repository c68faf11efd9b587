"""What is known about one tracked step: the object that quantities measure.

Parameter-sized tensors exist while the step lasts. Small numbers are put aside for the host (``numbers``) and may be
read later, when training has long gone on: most quantities read nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import derived
from cockpit.engine.branches import beside
from cockpit.engine.form_statistics import Direction
from cockpit.engine.lanczos import Eigenpair
from cockpit.engine.line import Line, LineEnd, unseen_by
from cockpit.engine.microbatch import Microbatch, Vectors, summed
from cockpit.engine.motion import Motion
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
from cockpit.engine.numbers import Key, Numbers
from cockpit.engine.reduction import CENTRE, SCATTER, SQUARES, Reduction, rounding_of, unsettled
from cockpit.engine.statistics.bins import Bins
from cockpit.engine.vectors import square_distances, square_norms
from cockpit.engine.ways import Ways

Numeric = NDArray[np.float64]
LOSS = "loss"
OVER = Reduction([], {}, {}, 0, Numbers(), set(), False, 0.0)  # of a step whose gradients are let go
NEW_REGULARISER = "a regularisation term appeared in the loss at this step; the next steps are measured without it"


@dataclass
class Observation:
    """One step, frozen: parameters, gradient, individual gradients, curvature; an absent fact raises ``Undefined``."""

    step: int
    parameters: Vectors
    gradient: Vectors  # g, before clipping, without the loss scale
    microbatches: list[Microbatch]
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
    half: torch.dtype | None = None  # half precision inside the step (autocast): gradients are rounded more
    regularised: set[str] = field(default_factory=set)  # parameters whose gradient has a part that no sample gave
    ways: Ways = field(default_factory=Ways)  # to the statistics of individual gradients, as they were asked for
    prompt: bool = True  # numbers may be looked at at once; else decisions that need them come late
    numbers: Numbers = field(default_factory=Numbers)
    names: list[str] = field(default_factory=list)  # covered parameters: the rows of per-sample numbers
    all_names: list[str] = field(default_factory=list)
    rounding: float = 0.0
    _eigenpair: Eigenpair | str | None = None

    def __post_init__(self) -> None:
        self.batch_size = sum(micro.samples for micro in self.microbatches)  #: number of samples of the step
        self.all_names = self.all_names or list(self.parameters)
        self.moved_names: list[str] = []
        self._totals: dict[Key, Numeric] = {}
        self._means: dict[str, float] | None = None
        self._scatter: tuple[float, float, float] | None = None
        if self.parameters:
            self.rounding = rounding_of(next(iter(self.parameters.values())), self.half)
        self.reduction = Reduction(
            self.microbatches,
            self.parameters,
            self.gradient,
            self.batch_size,
            self.numbers,
            self.regularised,
            self.prompt,
            self.rounding,
            self.ways,
        )
        self._shares = next((micro.shares for micro in self.microbatches if isinstance(micro.shares, str)), None)
        if LOSS in self.numbers:  # a replayed step comes with its numbers
            self._shares = None if (LOSSES, "moments") in self.numbers else self._shares
            self._eigenpair = self._found_eigenpair()
        elif self.microbatches:
            self.numbers.put(LOSS, reduce(torch.add, (micro.loss for micro in self.microbatches)))
            if self._shares is None:
                shares = [micro.shares for micro in self.microbatches if isinstance(micro.shares, Tensor)]
                losses = shares[0] if len(shares) == 1 else torch.cat(shares)
                self.numbers.put(LOSSES, losses)
                self.numbers.put((LOSSES, "moments"), beside(partial(derived.moments, losses), losses).value)
            self._eigenpair = self._found_eigenpair()

    # ---- the loss

    @property
    def loss(self) -> float:
        """The number that was backpropagated, summed over the backward passes of the step."""
        if LOSS not in self.numbers:
            raise Undefined(self.flaw or "no backward pass was seen in this step")
        return self.numbers.values(LOSS)[0] / self.loss_scale

    @cached_property
    def losses(self) -> Numeric:
        """Individual losses, [B]; their mean is the data part of the loss."""
        if self._shares is not None or LOSSES not in self.numbers:
            raise Undefined(self._shares or self.flaw or "no backward pass was seen in this step")
        return self.numbers[LOSSES].astype(np.float64) * (self.batch_size / self.loss_scale)

    @property
    def uncovered(self) -> dict[str, str]:
        """Parameters without individual gradients, and why."""
        return {name: why for micro in self.microbatches for name, why in micro.uncovered.items()}

    # ---- while the step lasts: compute what the quantities need

    def prepare(self, needs: frozenset[Need], line: Mapping[str, Direction] | None = None) -> None:
        """Compute the numbers that the quantities of this step need, in one pass over the parameters."""
        samples = per_sample(needs) or line is not None
        if (GRADIENT in needs or samples) and self.gradient:
            self.numbers.put(GRADIENT, beside(partial(square_norms, list(self.gradient.values()))).value)
        if DISTANCE in needs and self.start:
            self._put_distance()
        if samples:
            self._require_samples()
            self.names = self.covered()
            self.reduction.prepare(self.names, needs, line, self.loss_scale)
        for need in needs:
            if isinstance(need, Trace):
                self._put_traces(need)
            elif isinstance(need, NoiseToCurvature) and self.names:
                self._put_noise(need)

    def _put_distance(self) -> None:
        starts = [self.start[name] for name in self.parameters]
        self.numbers.put(DISTANCE, beside(partial(square_distances, list(self.parameters.values()), starts)).value)

    def _put_traces(self, need: Trace) -> None:
        try:
            estimates = self.diagonal(need.diagonal)
        except Undefined:
            return
        zero = next(iter(self.parameters.values())).new_zeros((), dtype=torch.float64)
        traced = partial(_traces, estimates, list(self.parameters), zero)
        self.numbers.put(need, beside(traced, traced).value)

    def _put_noise(self, need: NoiseToCurvature) -> None:
        try:
            self.reduction.put_noise(need, mean_of(self.diagonal(need.diagonal)))
        except Undefined:
            return

    def moved(self, update: Vectors, leaving: bool = False, motion: Motion | None = None) -> None:
        """The optimizer has stepped: put its length aside and, for a line that begins here, <g_n, update>."""
        self.update, self.moved_names = update, list(update) if motion is None else motion.names
        lengths_of = partial(square_norms, list(update.values())) if motion is None else motion.lengths
        self.numbers.put(UPDATE, beside(lengths_of).value)
        if leaving and self.reduction.statistics:
            lengths = None if motion is None else self._squares(UPDATE)
            self.reduction.moved(update, lengths, motion)

    def release(self) -> None:
        """The step is over: let go of everything but the numbers."""
        self.parameters, self.gradient, self.update, self.start = {}, {}, None, {}
        self.root, self.leaves = None, []
        self.reduction = OVER
        for micro in self.microbatches:
            micro.forms, micro.diagonals, micro.raw = {}, {}, None

    # ---- individual gradients

    def covered(self) -> list[str]:
        """Parameters with individual gradients."""
        missing = self.uncovered
        took_part = {name for micro in self.microbatches for name in micro.forms}
        return [name for name in self.parameters if name in took_part and name not in missing]

    def total(self, key: Key) -> Numeric:
        """Per-sample numbers summed over the covered parameters, [B]."""
        if key not in self._totals:
            self._totals[key] = self._rows(key).sum(axis=0, dtype=np.float64)
        return self._totals[key]

    def sq_norms(self) -> Vectors:
        """||g_n||^2 of each covered parameter, [B]."""
        return self._by_name(SQ_NORM)

    def dots(self, direction: str = DOT_GRAD) -> Vectors:
        """<g_n, mean gradient> of each covered parameter, [B]."""
        return self._by_name(direction)

    def mean_sq(self) -> dict[str, float]:
        """||mean_n g_n||^2 of each covered parameter."""
        if self._means is None:
            self._means = self._mean_sq()
        return self._means

    def _mean_sq(self) -> dict[str, float]:
        self._require(CENTRE)
        if not self.regularised:
            whole = self._squares(GRADIENT)
            return whole if len(whole) == len(self.names) else {name: whole[name] for name in self.names}
        whole, through = self._squares(GRADIENT), self.numbers.values(CENTRE)
        rows = zip(self.names, through, strict=False)
        return {name: mean if name in self.regularised else whole[name] for name, mean in rows}

    def sum_sq(self) -> Vectors:
        """sum_n g_n^2, elementwise; while the step lasts."""
        self._require_samples()
        return {name: self.reduction.sum_sq(name) for name in self.names}

    def abs_max(self) -> float:
        """Largest absolute element of any g_n."""
        self._require(ABS_MAX)
        return float(self.numbers[ABS_MAX].max())

    def mean_gradient(self) -> Vectors:
        """mean_n g_n of each covered parameter: the gradient without regularisation terms; while the step lasts."""
        self._require_samples()
        return self.reduction.mean_gradient()

    def counts(self, need: Hist1d | Hist2d) -> Numeric:
        """Counts of the covered parameters (``names``), one row for each."""
        return self._rows(need)

    def hist1d(self, bins: Bins) -> dict[str, NDArray[np.int64]]:
        """Counts of each covered parameter."""
        return dict(zip(self.names, self.counts(Hist1d(bins)).astype(np.int64), strict=True))

    def hist2d(self, gradient: Bins, parameter: Bins) -> dict[str, NDArray[np.int64]]:
        """Counts of each covered parameter."""
        return dict(zip(self.names, self.counts(Hist2d(gradient, parameter)).astype(np.int64), strict=True))

    def squares(self) -> dict[str, float]:
        """sum_n ||g_n||^2 of each covered parameter."""
        self._require(SQUARES)
        return dict(zip(self.names, self.numbers.values(SQUARES), strict=True))

    def sum_of_squares(self) -> float:
        """sum_n ||g_n||^2 over all covered parameters."""
        if SCATTER in self.numbers:
            return self.numbers.values(SCATTER)[0]
        return sum(self.squares().values())

    def scatter(self) -> tuple[float, float, float]:
        """||g||^2, sum_n ||g_n||^2 / ||g||^2 and sum_n <g_n, g>^2 / ||g||^4, with g the mean of g_n."""
        if self._scatter is None:
            mean = sum(self.mean_sq().values())
            self._require(SCATTER)
            norms, along = self.numbers.values(SCATTER)
            relative = (norms / mean, along / mean / mean) if mean else (0.0, 0.0)
            self._scatter = (mean, *relative)
        return self._scatter

    def signal_to_noise(self, need: SignalToNoise) -> tuple[float, float]:
        """Sum of the ratios g_j^2 / var_j, and how many there are."""
        if self.batch_size < 2 and not self.flaw:
            raise Undefined("a batch of one sample has no variance")
        self._require(need)
        ratios, count = self.numbers[need].sum(axis=0, dtype=np.float64)
        return float(ratios), float(count)

    # ---- lengths

    def norms(self, key: Key) -> dict[str, float]:
        """Euclidean length of the ``GRADIENT``, the ``UPDATE`` or the ``DISTANCE`` of each parameter."""
        if key == UPDATE and UPDATE not in self.numbers:
            raise Undefined("the optimizer took no step")
        return {name: sqrt(square) for name, square in self._squares(key).items()}

    # ---- curvature

    def diagonal(self, need: Diagonal) -> list[Vectors]:
        """Diagonal curvature: one exact value, or several estimates; summed over the backward passes."""
        found: list[list[Vectors]] = []
        for micro in self.microbatches:
            value = micro.diagonals.get(need, "the curvature was not computed")
            if isinstance(value, str):
                raise Undefined(value)
            found.append(value)
        if not found:
            raise Undefined(self.flaw or "no backward pass was seen in this step")
        return [summed([parts[k] for parts in found], self.loss_scale) for k in range(len(found[0]))]

    def traces(self, need: Trace) -> dict[str, Numeric]:
        """Trace of the diagonal of each parameter, one for each estimate."""
        if need not in self.numbers:
            self.diagonal(need.diagonal)  # raises the reason
        return dict(zip(self.all_names, self.numbers[need].T.astype(np.float64), strict=True))

    def noise_to_curvature(self, need: NoiseToCurvature) -> float:
        """Summed over the covered parameters."""
        if need not in self.numbers:
            self.diagonal(need.diagonal)
            self._require(need)
        return float(self.numbers[need].sum(dtype=np.float64))

    def eigenpair(self) -> Eigenpair:
        """Largest eigenvalue of the mini-batch Hessian."""
        if isinstance(self._eigenpair, str) or self._eigenpair is None:
            raise Undefined(self._eigenpair or self.flaw or "no backward pass was seen in this step")
        return self._eigenpair

    def _found_eigenpair(self) -> Eigenpair | str:
        if len(self.microbatches) > 1:
            return "the Hessian of several accumulated backward passes cannot be multiplied with"
        pair = self.microbatches[0].eigenpair or "the eigenvalue was not computed"
        if isinstance(pair, str):
            return pair
        return Eigenpair(pair.value / self.loss_scale, pair.vector, pair.products, pair.residual / self.loss_scale)

    # ---- along the step

    def length(self) -> float:
        """Length of the update."""
        return sqrt(sum(self._squares(UPDATE).values()))

    def end(self, length: float, key: str) -> LineEnd:
        """Loss and slope here along a step of the given length, with the variance of their means (the data part)."""
        if self._shares is not None or (LOSSES, "moments") not in self.numbers:
            raise Undefined(self._shares or self.flaw or "no backward pass was seen in this step")
        self._require((key, "moments"))
        size, unit = self.batch_size, self.batch_size / self.loss_scale
        if size < 2:
            raise Undefined("a batch of one sample has no variance")
        seen, spread, typical = self.numbers.values((LOSSES, "moments"))
        seen, spread, typical, whole = seen * unit, spread * unit**2, typical * unit, self.loss
        if not self.regularised and abs(seen - whole) > unseen_by(self.half) * max(typical, abs(whole)):
            raise Undefined("a part of the loss depends on the samples but was not seen; use pit.loss for all of it")
        slope, scatter, _ = self.numbers.values((key, "moments"))
        return LineEnd(seen, slope / length, spread / size, scatter / (length * length) / size)

    def unsettled(self) -> set[str]:
        """Parameters whose gradient turns out to have a part that no sample contributed, not known before."""
        return unsettled(self.numbers, self.all_names, self.names, self.rounding) - self.regularised

    # ---- helpers

    def _require_samples(self) -> None:
        if self.flaw:
            raise Undefined(self.flaw)
        if not self.batch_size:
            raise Undefined("no backward pass was seen in this step")
        if not self.names and not self.covered():
            why = "; ".join(sorted(set(self.uncovered.values()))) or "none was used on a batch"
            raise Undefined(f"no parameter has individual gradients: {why}")

    def _require(self, key: Key) -> None:
        if key not in self.numbers:
            self._require_samples()
            raise Undefined("this statistic was not asked for before the backward pass")

    def _rows(self, key: Key) -> Numeric:
        self._require(key)
        return self.numbers[key]

    def _by_name(self, key: Key) -> Vectors:
        return {name: torch.from_numpy(row) for name, row in zip(self.names, self._rows(key), strict=True)}

    def _squares(self, key: Key) -> dict[str, float]:
        if key not in self.numbers:
            raise Undefined(self.flaw or "no backward pass was seen in this step")
        names = self.moved_names if key == UPDATE else self.all_names
        return dict(zip(names, self.numbers.values(key), strict=True))


def _traces(estimates: list[Vectors], names: list[str], zero: Tensor) -> Tensor:
    rows = [[e[name].double().sum() if name in e else zero for name in names] for e in estimates]
    return torch.stack([torch.stack(row) for row in rows])


def mean_of(estimates: list[Vectors]) -> Vectors:
    """Mean of several estimates."""
    if len(estimates) == 1:
        return estimates[0]
    return {name: torch.stack([estimate[name] for estimate in estimates]).mean(0) for name in estimates[0]}
