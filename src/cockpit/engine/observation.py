"""What is known about one tracked step: the object that quantities measure.

A step may consist of several backward passes (gradient accumulation); their samples form one batch of ``batch_size``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import statistics
from cockpit.engine.binning import Bins
from cockpit.engine.lanczos import Eigenpair
from cockpit.engine.needs import ABS_MAX, DOT_GRAD, SQ_NORM, SUM_SQ, Diagonal, Hist1d, Hist2d, Need, per_sample
from cockpit.engine.statistics import Statistics, Wanted
from cockpit.layers.forms import AnyForm, Dense, joined, scale

Vectors = dict[str, Tensor]
ROUNDING = {torch.float64: 1e-10, torch.float32: 2e-5}


@dataclass
class Microbatch:
    """One backward pass; shares and forms still carry the loss scale."""

    samples: int
    loss: Tensor
    forms: dict[str, AnyForm]
    uncovered: dict[str, str]
    shares: Tensor | str  # each sample's share of the loss, or why it is not known
    coupled: bool = False
    diagonals: dict[Diagonal, list[Vectors] | str] = field(default_factory=dict)
    eigenpair: Eigenpair | str | None = None
    factor: float = 0.0  # what the forms have been multiplied with; 0: not yet widened
    origin: tuple[object, ...] = ()  # the forward calls it goes back to

    def join(self, other: "Microbatch") -> None:
        """Add a second backward pass over the same forward call: the same samples, not more of them."""
        self.loss = self.loss + other.loss
        for name, form in other.forms.items():
            mine = self.forms.get(name)
            self.forms[name] = form if mine is None else joined(mine, form)
        self.uncovered.update(other.uncovered)
        both = isinstance(self.shares, Tensor) and isinstance(other.shares, Tensor)
        self.shares = self.shares + other.shares if both else other.shares  # type: ignore[operator]
        for need, found in other.diagonals.items():
            known = self.diagonals.get(need)
            if isinstance(known, list) and isinstance(found, list):
                found = [_summed(list(pair), 1.0) for pair in zip(known, found, strict=True)]
            self.diagonals[need] = known if isinstance(known, str) else found
        if self.eigenpair is not None:
            self.eigenpair = "the Hessian of several accumulated backward passes cannot be multiplied with"


@dataclass(frozen=True, slots=True)
class Line:
    """The step seen along its own direction: losses, slopes and their noise at its two ends."""

    step: int
    length: float
    losses: tuple[float, float]
    slopes: tuple[float, float]
    loss_variances: tuple[float, float]
    slope_variances: tuple[float, float]


@dataclass(frozen=True, slots=True)
class LineEnd:
    """One end of a :class:`Line`."""

    loss: float
    slope: float
    loss_variance: float
    slope_variance: float


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
    _statistics: dict[str, Statistics] = field(default_factory=dict)
    _mean: Vectors = field(default_factory=dict)
    regularised: bool = False
    half: torch.dtype | None = None  # half precision inside the step (autocast): gradients are rounded more

    @property
    def loss(self) -> float:
        """The number that was backpropagated, summed over the backward passes of the step."""
        if not self.microbatches:
            raise Undefined(self.flaw or "no backward pass was seen in this step")
        return float(reduce(torch.add, (micro.loss for micro in self.microbatches))) / self.loss_scale

    @property
    def batch_size(self) -> int:
        """Number of samples of the step."""
        return sum(micro.samples for micro in self.microbatches)

    @cached_property
    def losses(self) -> Tensor:
        """Individual losses, [B]; their mean is the data part of the loss."""
        for micro in self.microbatches:
            if isinstance(micro.shares, str):
                raise Undefined(micro.shares)
        shares = [micro.shares for micro in self.microbatches if isinstance(micro.shares, Tensor)]
        return torch.cat(shares) * (self.batch_size / self.loss_scale)

    @property
    def uncovered(self) -> dict[str, str]:
        """Parameters without individual gradients, and why."""
        return {name: why for micro in self.microbatches for name, why in micro.uncovered.items()}

    # ---- individual gradients

    def prepare(self, needs: frozenset[Need], line: Vectors | None = None) -> None:
        """Compute the statistics that the quantities of this step need, in one pass over the parameters."""
        if not per_sample(needs) and line is None:
            return
        self._require_samples()
        wanted = Wanted(
            sq_norm=SQ_NORM in needs,
            sum_sq=SUM_SQ in needs,
            abs_max=ABS_MAX in needs,
            hist1d=tuple(need.bins for need in needs if isinstance(need, Hist1d)),
            hist2d=tuple((need.gradient, need.parameter) for need in needs if isinstance(need, Hist2d)),
        )
        centred = bool({SQ_NORM, DOT_GRAD, SUM_SQ} & needs)
        self._scale()
        for name in self.covered():
            directions = {"grad": self.gradient[name]} if centred else {}
            if line is not None and name in line:
                directions["line"] = line[name]
            self._statistics[name] = self._of_parameter(name, wanted, directions)
            if centred:
                self._mean[name] = self._data_part(name)

    def project(self, direction: Vectors) -> Tensor:
        """<g_n, v> summed over all covered parameters, [B], for a direction that was not known before."""
        self._require_samples()
        self._scale()
        parts = [self._of_parameter(name, Wanted(), {"v": direction[name]}).dots["v"] for name in self.covered()]
        return reduce(torch.add, parts)

    def covered(self) -> list[str]:
        """Parameters with individual gradients."""
        missing = self.uncovered
        took_part = {name for micro in self.microbatches for name in micro.forms}
        return [name for name in self.parameters if name in took_part and name not in missing]

    def sq_norms(self) -> Vectors:
        """||g_n||^2 of each covered parameter, [B]."""
        return {name: _known(found.sq_norm) for name, found in self._all()}

    def dots(self, direction: str = "grad") -> Vectors:
        """<g_n, mean gradient>, or <g_n, last step>, of each covered parameter, [B]."""
        return {name: found.dots[direction] for name, found in self._all() if direction in found.dots}

    def sum_sq(self) -> Vectors:
        """sum_n g_n^2, elementwise."""
        return {name: _known(found.sum_sq) for name, found in self._all()}

    def abs_max(self) -> float:
        """Largest absolute element of any g_n."""
        return max(float(_known(found.abs_max)) for _, found in self._all())

    def mean_gradient(self) -> Vectors:
        """mean_n g_n of each covered parameter: the gradient without regularisation terms."""
        self._require_samples()
        return self._mean

    def hist1d(self, bins: Bins) -> Vectors:
        """Counts of each covered parameter."""
        return {name: found.hist1d[bins] for name, found in self._all()}

    def hist2d(self, gradient: Bins, parameter: Bins) -> Vectors:
        """Counts of each covered parameter."""
        return {name: found.hist2d[gradient, parameter] for name, found in self._all()}

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
        return [_summed([parts[k] for parts in found], self.loss_scale) for k in range(len(found[0]))]

    def eigenpair(self) -> Eigenpair:
        """Largest eigenvalue of the mini-batch Hessian."""
        if len(self.microbatches) > 1:
            raise Undefined("the Hessian of several accumulated backward passes cannot be multiplied with")
        pair = self.microbatches[0].eigenpair if self.microbatches else "no backward pass was seen in this step"
        if isinstance(pair, str) or pair is None:
            raise Undefined(pair or "the eigenvalue was not computed")
        return Eigenpair(pair.value / self.loss_scale, pair.vector, pair.products, pair.residual / self.loss_scale)

    # ---- along the step

    def end(self, length: float, projected: Tensor) -> LineEnd:
        """Loss and slope here along a step of the given length, with the variance of their means (the data part)."""
        losses, slopes, size = self.losses, projected.double() / length, self.batch_size
        if size < 2:
            raise Undefined("a batch of one sample has no variance")
        seen, whole = float(losses.mean()), self.loss
        rounding = 1e-3 if self.half is None else 5e-2
        if not self.regularised and abs(seen - whole) > rounding * max(float(losses.abs().mean()), abs(whole)):
            raise Undefined("a part of the loss depends on the samples but was not seen; use pit.loss for all of it")
        variances = float(losses.var()) / size, float(slopes.var()) / size
        return LineEnd(float(losses.mean()), float(slopes.mean()), *variances)

    # ---- helpers

    def _require_samples(self) -> None:
        if self.flaw:
            raise Undefined(self.flaw)
        if not self.microbatches:
            raise Undefined("no backward pass was seen in this step")
        if not self.covered():
            why = "; ".join(sorted(set(self.uncovered.values()))) or "none was used on a batch"
            raise Undefined(f"no parameter has individual gradients: {why}")

    def _scale(self) -> None:
        """Turn contributions into individual gradients: times the batch size, without the loss scale."""
        factor = self.batch_size / self.loss_scale
        for micro in self.microbatches:
            if micro.factor != factor:
                micro.forms = {name: scale(form, factor / (micro.factor or 1)) for name, form in micro.forms.items()}
                micro.factor = factor

    def _all(self) -> list[tuple[str, Statistics]]:
        self._require_samples()
        return list(self._statistics.items())

    def _of_parameter(self, name: str, wanted: Wanted, directions: Mapping[str, Tensor]) -> Statistics:
        theta = self.parameters[name]
        parts = [_of_microbatch(micro, name, theta, wanted, directions) for micro in self.microbatches]
        return parts[0] if len(parts) == 1 else _merged(parts)

    def _data_part(self, name: str) -> Tensor:
        """The gradient, or where it has a part that no sample contributed (an L2 term) the mean of g_n."""
        g, found = self.gradient[name], self._statistics[name]
        dots = found.dots["grad"].double()
        whole, through = float(g.double().square().sum()), float(dots.mean())
        rounding = self._rounding(name)
        if abs(whole - through) <= rounding * max(whole, float(dots.abs().mean()), 1e-300) or whole != whole:
            return g
        self.regularised = True
        means = [
            statistics.mean_gradient(micro.forms[name]) * (micro.samples / self.batch_size)
            for micro in self.microbatches
            if name in micro.forms
        ]
        mean = reduce(torch.add, means) if means else torch.zeros_like(g)
        found.dots["grad"] = self._of_parameter(name, Wanted(), {"grad": mean}).dots["grad"]
        return mean

    def _rounding(self, name: str) -> float:
        """How far autograd's own gradient may be from the sum of ours by rounding alone."""
        theta = self.parameters[name]
        if theta.is_cuda and theta.dtype == torch.float32 and torch.backends.cudnn.allow_tf32:
            return 5e-2 if self.half else 5e-3  # convolutions round their inputs to ten bits
        return ROUNDING.get(self.half or theta.dtype, 5e-2)


def _of_microbatch(
    micro: Microbatch, name: str, theta: Tensor, wanted: Wanted, directions: Mapping[str, Tensor]
) -> Statistics:
    form = micro.forms.get(name)
    if form is None:  # the parameter took no part: its individual gradients are zero
        form = Dense(theta.new_zeros(()).expand(micro.samples, *theta.shape))
    return statistics.compute(form, theta, wanted, {key: v.to(form.dtype) for key, v in directions.items()})


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


def _summed(parts: list[Vectors], loss_scale: float) -> Vectors:
    names = {name: None for part in parts for name in part}
    return {name: reduce(torch.add, (part[name] for part in parts if name in part)) / loss_scale for name in names}


def _known(tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise Undefined("this statistic was not asked for before the backward pass")
    return tensor
