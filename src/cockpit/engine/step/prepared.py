"""The computing half of an observed step: from passes to small numbers, while parameter-sized tensors are there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.balance import rounding_of
from cockpit.engine.needs import DISTANCE, GRADIENT, LOSSES, UPDATE, Diagonal, Need, Trace, per_sample
from cockpit.engine.statistics.lengths import square_distances, square_norms
from cockpit.engine.statistics.together import SMALL
from cockpit.engine.step.backward import Pass, mean_of
from cockpit.engine.step.line import Line
from cockpit.engine.step.numbers import Numbers
from cockpit.engine.step.reduction import Reduction, Vectors
from cockpit.engine.step.settings import Settings
from cockpit.layers.forms import AnyForm, Dense, scale, wide

LOSS = "loss"
START = "start"  # <g_n, update>
OFF = "off"  # how far the samples' contributions are from the gradient
NOTHING_SEEN = "no backward pass was seen in this step"


@dataclass
class Prepared:
    """One step, and what is computed of it."""

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
        self._elements: dict[Need, Vectors] = {}
        self._shares = next((found.shares for found in self.passes if isinstance(found.shares, str)), None)
        if self.passes:
            self.numbers.put(LOSS, torch.stack([found.loss.double() for found in self.passes]).sum())
            if self._shares is None:
                shares = [found.shares for found in self.passes if isinstance(found.shares, Tensor)]
                self.numbers.put(LOSSES, torch.cat(shares))

    @torch.no_grad()
    def prepare(self, needs: frozenset[Need], line: Mapping[str, Tensor] | None = None) -> None:
        """Compute the numbers that the quantities of this step need."""
        samples = per_sample(needs) or line is not None
        if (GRADIENT in needs or samples) and self.gradient:
            self._put_lengths()
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

    def _put_lengths(self) -> None:
        squares = dict(zip(self.gradient, square_norms(list(self.gradient.values())), strict=True))
        zero = torch.zeros_like(next(iter(squares.values())))
        self.numbers.put(GRADIENT, torch.stack([squares.get(name, zero) for name in self.all_names]))

    def _reduce(self, needs: frozenset[Need], line: Mapping[str, Tensor]) -> None:
        structural = {name: why for found in self.passes for name, why in found.uncovered.items()}
        took_part = {name for found in self.passes for name in found.off}
        self._candidates = [name for name in self.parameters if name in took_part and name not in structural]
        known = self.passes[0].numbers if len(self.passes) == 1 else {}
        elements = self.passes[0].elements if known else {}
        reduction = Reduction(
            needs, self.settings.allowance, line, self._diagonals(needs), elements, self.settings.paths
        )
        rows = [known.get(name) or self._of_parameter(reduction, name) for name in self._candidates]
        self._elements = reduction.kept
        if rows:
            for key in rows[0]:
                self.numbers.put(key, torch.stack([row[key] for row in rows]))
            zero = next(iter(self.parameters.values())).new_zeros(())
            off = [torch.stack([found.off.get(name, zero) for name in self._candidates]) for found in self.passes]
            self.numbers.put(OFF, torch.stack(off).double().sum(0) * (self.batch_size / self.loss_scale))

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
                found[need.name] = mean_of(estimates, 1.0)
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
            if any(name in found.off and name not in found.forms for found in self.passes for name in self.directions):
                return  # what samples contributed to it did not fit
            rows = self._along(self.directions)
            self.numbers.put(START, torch.stack([rows[name] for name in self.directions]))

    def _along(self, vectors: Vectors) -> Vectors:
        """<g_n, v> of each parameter, [B]; small ones of one shape together."""
        reduction, rows = Reduction(frozenset(), self.settings.allowance), dict[str, Tensor]()
        small: dict[Any, list[tuple[str, Tensor]]] = {}
        for name, vector in vectors.items():
            form = self.passes[0].forms.get(name) if len(self.passes) == 1 else None
            if isinstance(form, Dense) and form.size <= SMALL:
                small.setdefault((form.value.shape, form.value.dtype, vector.device), []).append((name, form.value))
            else:
                parts = [self._scaled(found, name) for found in self.passes]
                rows[name] = reduction.along(parts, self.parameters[name], vector)
        for group in small.values():
            names, values = zip(*group, strict=True)
            g = wide(torch.stack(values)).flatten(2) if values[0].dim() > 1 else wide(torch.stack(values))[..., None]
            beside = torch.stack([vectors[name].reshape(-1) for name in names]).to(g)
            found = torch.bmm(g, beside[..., None]).squeeze(2) * (self.batch_size / self.loss_scale)
            rows |= zip(names, found.unbind(0), strict=True)
        return rows

    def release(self) -> None:
        """The step is over: let go of everything but the numbers."""
        self.parameters, self.gradient, self.update, self.start = {}, {}, None, {}
        self.root, self.leaves, self._elements = None, [], {}
        for found in self.passes:
            found.forms, found.terms, found.numbers, found.elements, found.gradient = {}, {}, {}, {}, {}
            known = found.curvature.diagonals
            found.curvature.diagonals = {need: value for need, value in known.items() if isinstance(value, str)}

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


def _summed(parts: list[Vectors], loss_scale: float) -> Vectors:
    """Sum vectors by name, without the loss scale."""
    names = {name: None for part in parts for name in part}
    return {name: torch.stack([part[name] for part in parts if name in part]).sum(0) / loss_scale for name in names}
