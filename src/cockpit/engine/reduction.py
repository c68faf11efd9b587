"""From individual gradients to small numbers: runs while a step lasts, or once when a step is recorded for replay."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from math import isfinite

import numpy as np
import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import derived
from cockpit.engine import form_statistics as statistics
from cockpit.engine.branches import Later, beside, meet
from cockpit.engine.form_statistics import Direction, Statistics, Wanted
from cockpit.engine.microbatch import Microbatch, Vectors
from cockpit.engine.motion import Motion
from cockpit.engine.needs import (
    ABS_MAX,
    DOT_GRAD,
    GRADIENT,
    LINE,
    SQ_NORM,
    SUM_SQ,
    Hist1d,
    Hist2d,
    Need,
    NoiseToCurvature,
    SignalToNoise,
)
from cockpit.engine.numbers import Key, Numbers
from cockpit.engine.vectors import stack
from cockpit.engine.ways import Way, Ways
from cockpit.layers.forms import AnyForm, Dense, Factored, Scratch, convolutions_round

START = "start"  # <g_n, update>
SCATTER = "scatter"  # see ``derived``
CENTRE = "centre"
SQUARES = "squares"  # sum_n ||g_n||^2 of each parameter
KEPT = 2**33  # bytes of formed gradients that are kept from the gradient to the update
KEPT_ON_CPU = 2**26
HEAVY = 2**26  # bytes of g_n from which on parameters take turns
ROUNDING = {torch.float64: 1e-10, torch.float32: 2e-5}


@dataclass
class Reduction:
    """The individual gradients of a step; what is computed from them is put into ``numbers``."""

    microbatches: list[Microbatch]
    parameters: Vectors
    gradient: Vectors
    batch_size: int
    numbers: Numbers
    regularised: set[str]  # parameters whose gradient has a part that no sample gave
    prompt: bool  # numbers may be looked at at once
    rounding: float
    ways: Ways = field(default_factory=Ways)
    taken: dict[str, Way] = field(default_factory=dict)  # of parameters that have a choice
    names: list[str] = field(default_factory=list)  # covered parameters: the rows of per-sample numbers
    of_mean: dict[str, bool] = field(default_factory=dict)
    directions: dict[str, Direction] = field(default_factory=dict)  # the update, where a line begins
    statistics: dict[str, Statistics] = field(default_factory=dict)
    room: int = KEPT_ON_CPU  # bytes that are left of it
    weights: Tensor | None = None  # what each parameter's projections on a line are multiplied with
    _dots: Tensor | None = None  # <g_n, g>, [P, N]
    _scratch: Scratch | None = None  # while parameters are treated one after the other

    def prepare(
        self, names: list[str], needs: frozenset[Need], line: Mapping[str, Direction] | None, scale: float
    ) -> None:
        """Compute what is needed in one pass over the parameters."""
        for micro in self.microbatches:
            micro.scale(self.batch_size / scale)
        self.names = names
        centred = bool({SQ_NORM, DOT_GRAD, SUM_SQ} & needs)
        wanted = wanted_by(needs, centred and len(self.microbatches) == 1)
        kept, self._scratch = 0, Scratch()
        for name in names:
            directions = {LINE: line[name]} if line is not None and name in line else {}
            # an update that follows the gradient needs no projection: one beside it, or the first, is likely to
            again = LINE in needs and (not directions or directions[LINE].coefficient == 1)
            compute = partial(self._of_parameter, name, wanted, directions, centred, again)
            found = self.statistics[name] = beside(compute, heavy=self._heavy(name)).value
            kept += 0 if found.formed is None else found.formed.nbytes
            if kept > KEPT or LINE not in needs:
                found.formed = None
        self._scratch = None
        meet()
        rows = stacked(list(self.statistics.values()), wanted)
        self._dots = rows.get(DOT_GRAD)
        self._put(rows)
        meet()
        if centred:
            self.of_mean = {name: found.of_mean for name, found in self.statistics.items()}
            if self.prompt:
                self._centre()
        for need in needs:
            if isinstance(need, SignalToNoise) and self.batch_size > 1:
                self._put_signal(need)

    def _put(self, rows: dict[Key, Tensor]) -> None:
        """Put rows aside, and the sums that are read most: one number is cheaper to read than many."""
        for key, tensor in rows.items():
            self.numbers.put(key, tensor)
        norms, dots = rows.get(SQ_NORM), rows.get(DOT_GRAD)
        if norms is not None:
            self._put_beside(SQUARES, partial(derived.row_sums, norms))
        if dots is not None:
            self._put_beside(CENTRE, partial(derived.centre, dots))
            if norms is not None:
                self._put_beside(SCATTER, partial(derived.scatter, norms, dots))
        if LINE in rows:
            self._put_beside((LINE, "moments"), partial(derived.moments, rows[LINE], self.weights))

    def _put_beside(self, key: Key, compute: Callable[[], Tensor]) -> None:
        self.numbers.put(key, beside(compute, held=compute).value)

    def _put_signal(self, need: SignalToNoise) -> None:
        sizes = self.batch_size, need.correction, need.epsilon
        means = self.mean_gradient()
        parts = [
            beside(partial(derived.signal_to_noise, mean, self.sum_sq(name), *sizes), mean)
            for name, mean in means.items()
        ]
        self._put_stacked(need, parts)

    def put_noise(self, need: NoiseToCurvature, diagonal: Vectors) -> None:
        """sum_n g_n^2 against curvature."""
        parts = [
            beside(partial(derived.noise_to_curvature, self.sum_sq(name), diagonal.get(name), need.epsilon), diagonal)
            for name in self.names
        ]
        self._put_stacked(need, parts)

    def _put_stacked(self, need: Need, parts: list[Later[Tensor]]) -> None:
        meet()
        self.numbers.put(need, torch.stack([part.value for part in parts]))

    def moved(self, update: Vectors, lengths: Mapping[str, float] | None, motion: Motion | None) -> None:
        """The optimizer has stepped, and a line begins: <g_n, update>.

        With ``motion``, an update along the gradient is recognised (plain gradient descent): it needs no projection.
        """
        coefficients = {} if motion is None or lengths is None else self._coefficients(lengths, motion)
        rows = []
        for name in self.names:
            vector, form, coefficient = update.get(name), None, coefficients.get(name)
            if coefficient is not None and name in self.microbatches[0].forms:
                form = self.microbatches[0].forms[name]
                form = form if isinstance(form, Factored) and form.outer else None  # small enough to keep for a step
            if vector is None and form is None and motion is not None:
                vector = motion.vector(name)
            direction = self.directions[name] = Direction(vector, form, 1.0 if coefficient is None else coefficient)
            known = None if coefficient is None else _dot_mean(self.statistics[name])
            rows.append(beside(partial(self._along, name, direction)).value if known is None else known)
        meet()
        weights = [coefficients.get(name, 1.0) for name in self.names] if coefficients else None
        scaled = None if weights is None else torch.from_numpy(np.array(weights))
        dots = self._dots if len(coefficients) == len(self.names) else None  # there they are one below the other
        self.numbers.put((START, "moments"), derived.moments(torch.stack(rows) if dots is None else dots, scaled))

    def _coefficients(self, lengths: Mapping[str, float], motion: Motion) -> dict[str, float]:
        """Parameters whose update is a multiple of their gradient."""
        if len(self.microbatches) != 1 or any(theta.device.type != "cpu" for theta in self.parameters.values()):
            return {}
        squares = dict(zip(self.parameters, self.numbers.values(GRADIENT), strict=True))
        known = [
            name
            for name in self.names
            if self.statistics[name].dot_mean is not None
            and name in self.microbatches[0].forms
            and name not in self.regularised
        ]
        return motion.along({name: self.gradient[name] for name in known}, lengths, squares)

    def sum_sq(self, name: str) -> Tensor:
        """sum_n g_n^2, elementwise."""
        found = self.statistics[name].sum_sq if name in self.statistics else None
        if found is None:
            raise Undefined("this statistic was not asked for before the backward pass")
        return found

    def mean_gradient(self) -> Vectors:
        """mean_n g_n of each covered parameter: the gradient without regularisation terms."""
        return {name: self._mean(name) if name in self.regularised else self.gradient[name] for name in self.names}

    def _of_parameter(
        self,
        name: str,
        wanted: Wanted,
        directions: Mapping[str, Direction],
        centred: bool,
        again: bool = False,
    ) -> Statistics:
        given = None
        if centred:
            given = self._mean(name) if name in self.regularised else self.gradient[name]
            if len(self.microbatches) > 1:
                directions = {**directions, DOT_GRAD: Direction(given)}
        parts = [self._of_microbatch(micro, name, wanted, directions, given, again) for micro in self.microbatches]
        return parts[0] if len(parts) == 1 else _merged(parts)

    def _of_microbatch(
        self,
        micro: Microbatch,
        name: str,
        wanted: Wanted,
        directions: Mapping[str, Direction],
        gradient: Tensor | None,
        again: bool,
    ) -> Statistics:
        """Compute everything wanted; ``again``: g_n is kept, if there is room, because it will be projected on."""
        form, theta = micro.forms.get(name), self.parameters[name]
        if form is None:  # the parameter took no part: its individual gradients are zero
            form = Dense(theta.new_zeros(()).expand(micro.samples, *theta.shape))
        room, way = self.room if again else 0, self.ways.of(name)
        found = statistics.compute(form, theta, wanted, directions, gradient, way, room, self._scratch)
        if found.way is not None:
            self.taken[name] = found.way
        if found.formed is not None and theta.device.type == "cpu":
            self.room -= found.formed.nbytes
            micro.forms[name] = Dense(found.formed.view(-1, *form.shape))  # and its factors are let go
            found.formed = None
        return found

    def _heavy(self, name: str) -> bool:
        return self.batch_size * self.parameters[name].nbytes > HEAVY

    def _along(self, name: str, direction: Direction) -> Tensor:
        """<g_n, v>, [B], for a direction that was not known before."""
        theta, found = self.parameters[name], []
        for micro in self.microbatches:
            form = micro.forms.get(name)
            if form is None:
                found.append(torch.zeros(micro.samples, dtype=theta.dtype, device=theta.device))
            else:
                found.append(self._projected(name, form, direction))
        return found[0] if len(found) == 1 else torch.cat(found)

    def _projected(self, name: str, form: AnyForm, direction: Direction) -> Tensor:
        whole = self.statistics[name].formed
        if whole is None or direction.vector is None or len(self.microbatches) > 1:
            return statistics.project(form, direction)
        return statistics.project_formed(whole, getattr(form, "factor", 1.0), direction.vector)

    def _mean(self, name: str) -> Tensor:
        means = [
            statistics.mean_gradient(micro.forms[name]) * (micro.samples / self.batch_size)
            for micro in self.microbatches
            if name in micro.forms
        ]
        return reduce(torch.add, means) if means else torch.zeros_like(self.gradient[name])

    def _centre(self) -> None:
        """Where the gradient has a part that no sample contributed (an L2 term), project on the mean of g_n."""
        found = unsettled(self.numbers, list(self.parameters), self.names, self.rounding) - self.regularised
        self.regularised |= found
        again = [name for name in found if not self.of_mean[name]]
        for name in again:
            wanted = Wanted(dot_mean=len(self.microbatches) == 1)
            fresh = self._of_parameter(name, wanted, {}, centred=True)
            self.statistics[name].dot_mean = _dot_mean(fresh)
        if again:
            rows: dict[Key, Tensor] = {DOT_GRAD: torch.stack([_dot_mean(found) for found in self.statistics.values()])}
            norms = [found.sq_norm for found in self.statistics.values()]
            if all(norm is not None for norm in norms):
                rows[SQ_NORM] = torch.stack([_known(norm) for norm in norms])
            self._put(rows)


def wanted_by(needs: frozenset[Need], dot_mean: bool) -> Wanted:
    """What the statistics of each parameter must hold."""
    return Wanted(
        sq_norm=SQ_NORM in needs,
        sum_sq=SUM_SQ in needs,
        abs_max=ABS_MAX in needs,
        dot_mean=dot_mean,
        hist1d=tuple(need.bins for need in needs if isinstance(need, Hist1d)),
        hist2d=tuple((need.gradient, need.parameter) for need in needs if isinstance(need, Hist2d)),
    )


def stacked(rows: list[Statistics], wanted: Wanted) -> dict[Key, Tensor]:
    """The small numbers of all parameters, one row for each."""
    numbers: dict[Key, Tensor] = {}
    if wanted.sq_norm:
        numbers[SQ_NORM] = stack([_known(row.sq_norm) for row in rows])
    if rows[0].dot_mean is not None or DOT_GRAD in rows[0].dots:
        numbers[DOT_GRAD] = stack([_dot_mean(row) for row in rows])
    along = [row.dots[LINE] for row in rows if LINE in row.dots]
    if along:
        numbers[LINE] = stack(along)
    if wanted.abs_max:
        numbers[ABS_MAX] = torch.stack([_known(row.abs_max) for row in rows])
    for bins in wanted.hist1d:
        numbers[Hist1d(bins)] = stack([row.hist1d[bins] for row in rows])
    for pair in wanted.hist2d:
        numbers[Hist2d(*pair)] = torch.stack([row.hist2d[pair] for row in rows])
    return numbers


def unsettled(numbers: Numbers, everything: list[str], names: list[str], rounding: float) -> set[str]:
    """Parameters whose gradient has a part that no sample contributed: its length is not that of the mean of g_n."""
    centre, squares = numbers.values(CENTRE), numbers.values(GRADIENT)
    means, sizes = centre[: len(names)], centre[len(names) :]
    if len(names) != len(everything):
        whole = dict(zip(everything, squares, strict=True))
        squares = [whole[name] for name in names]
    return {
        name
        for name, mean, size, square in zip(names, means, sizes, squares, strict=True)
        if not abs(square - mean) <= rounding * max(square, size, 1e-300) and isfinite(square)
    }


def rounding_of(theta: Tensor, half: torch.dtype | None) -> float:
    """How far autograd's own gradient may be from the sum of ours by rounding alone."""
    if theta.is_cuda and theta.dtype == torch.float32 and convolutions_round():
        return 5e-2 if half else 5e-3  # convolutions round their inputs to ten bits
    return ROUNDING.get(half or theta.dtype, 5e-2)


def _merged(parts: list[Statistics]) -> Statistics:
    first = parts[0]
    return Statistics(
        sq_norm=None if first.sq_norm is None else torch.cat([_known(part.sq_norm) for part in parts]),
        dots={key: torch.cat([part.dots[key] for part in parts]) for key in first.dots},
        sum_sq=None if first.sum_sq is None else reduce(torch.add, (_known(part.sum_sq) for part in parts)),
        abs_max=None if first.abs_max is None else torch.stack([_known(part.abs_max) for part in parts]).max(),
        hist1d={key: reduce(torch.add, (part.hist1d[key] for part in parts)) for key in first.hist1d},
        hist2d={key: reduce(torch.add, (part.hist2d[key] for part in parts)) for key in first.hist2d},
    )


def _dot_mean(found: Statistics) -> Tensor:
    return found.dots[DOT_GRAD] if found.dot_mean is None else found.dot_mean


def _known(tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise Undefined("this statistic was not asked for before the backward pass")
    return tensor
