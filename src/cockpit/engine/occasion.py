"""What a recording of a step is made for, and the tensors that stand in it for those of a step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from cockpit.engine.feed import Draw
from cockpit.engine.form_statistics import Direction
from cockpit.engine.losses import LossCall
from cockpit.engine.microbatch import Microbatch, Vectors
from cockpit.engine.needs import DOT_GRAD, LINE, LOSSES, SQ_NORM, Diagonal, Need
from cockpit.engine.numbers import Numbers
from cockpit.engine.observation import Observation
from cockpit.engine.raw import Collected, Script
from cockpit.engine.reduction import START
from cockpit.engine.ways import Ways
from cockpit.layers.forms import Dense
from cockpit.layers.layout import Layout

ROWS = frozenset({SQ_NORM, DOT_GRAD, LINE, START, LOSSES})  # one number per sample: only their sums are read
NOT_ASKED = "individual losses were not asked for"


@dataclass
class Raw:
    """What was collected in a backward pass, instead of forms."""

    script: Script
    collected: Collected
    calls: list[LossCall]
    layouts: list[Layout | str]
    why: str = NOT_ASKED  # there are no individual losses, where there is no call

    def tensors(self) -> Iterator[Tensor]:
        """Everything collected, in a fixed order."""
        for grads, saved in (self.collected[place] for place in sorted(self.collected)):
            yield from (grad for grad in grads if grad is not None)
            yield from saved
        for call in self.calls:
            yield from call.tensors()

    def copied(self, draw: Draw) -> "Raw":
        """The same on memory of our own, which is drawn."""
        collected = {}
        for place, (grads, saved) in self.collected.items():
            own = tuple(None if grad is None else draw(grad) for grad in grads)
            collected[place] = own, tuple(draw(tensor) for tensor in saved)
        return Raw(self.script, collected, [call.like(draw) for call in self.calls], self.layouts, self.why)

    def shares(self, samples: int) -> Tensor:
        """Each sample's share of the loss."""
        parts = [call.contributions(samples, layout) for call, layout in zip(self.calls, self.layouts, strict=True)]
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]


class Occasion(NamedTuple):
    """What a program is recorded for."""

    needs: frozenset[Need]
    due: frozenset[Need]  # without those of a line that ends here
    leaving: bool  # a line begins here
    loss_scale: float
    half: torch.dtype | None
    regularised: frozenset[str]
    diagonals: frozenset[Diagonal] = frozenset()  # those that are there
    followed: frozenset[str] = frozenset()  # parameters whose last update was a multiple of their gradient
    arriving: bool = True  # a line ends here
    ways: Ways = Ways()


class Given(NamedTuple):
    """What a step brings when its gradients are complete."""

    raw: Raw
    micro: Microbatch
    parameters: Mapping[str, Tensor]
    gradient: Vectors
    line: Mapping[str, Direction]  # where the step before led
    early: Mapping[str, Tensor] = {}  # g_n that are made already, and not of what is in ``raw`` (see ``digest.py``)


class Performance(Protocol):
    """A recording of what is done at a step, to be done again."""

    def fits(self, given: Given) -> bool:
        """Whether the step is as the one that was recorded."""

    def observe(self, given: Given) -> Observation:
        """The gradients of a step that fits are complete: an observation that holds numbers only."""

    def mark(self, parameters: Mapping[str, Tensor]) -> None:
        """The optimizer is about to step."""

    def step(self, seen: Observation, untouched: bool) -> None:
        """The optimizer has stepped; ``untouched``: the gradient is still what the backward pass made it."""


@dataclass
class Fixed:
    """Tensors that stay the same from step to step; parameters are where they always are."""

    raw: Raw
    loss: Tensor
    gradient: Vectors
    parameters: Vectors
    start: Mapping[str, Tensor]
    samples: int
    uncovered: dict[str, str]
    occasion: Occasion
    diagonals: dict[Diagonal, list[Vectors] | str] = field(default_factory=dict)
    early: Vectors = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._addresses = [theta.data_ptr() for theta in self.parameters.values()]
        self._pattern: dict[str, Any] | None = None  # of a step that is made again

    @classmethod
    def like(
        cls, given: Given, start: Mapping[str, Tensor], occasion: Occasion, draw: Draw = torch.empty_like
    ) -> "Fixed":
        """With memory of their own, which is drawn."""
        micro, gradient = given.micro, {name: draw(grad) for name, grad in given.gradient.items()}
        parameters = {name: theta.detach() for name, theta in given.parameters.items()}
        found = cls(
            given.raw.copied(draw),
            draw(micro.loss),
            gradient,
            parameters,
            start,
            micro.samples,
            micro.uncovered,
            occasion,
        )
        found.diagonals = {need: _like(micro.diagonals[need], draw) for need in occasion.diagonals}
        found.early = {name: draw(value) for name, value in given.early.items()}
        return found

    def tensors(self) -> list[Tensor]:
        """All that a step fills in."""
        found = *self.raw.tensors(), self.loss, *self.gradient.values(), *_tensors_of(self.diagonals)
        return [*found, *self.early.values()]

    def sources(self, given: Given) -> list[Tensor]:
        """The same of a step."""
        curved = {need: given.micro.diagonals[need] for need in self.diagonals}
        found = *given.raw.tensors(), given.micro.loss, *given.gradient.values(), *_tensors_of(curved)
        return [*found, *given.early.values()]

    def fits(self, given: Given) -> bool:
        """Whether parameters are where they were, no gradient is missing, and as many losses were seen."""
        here = [theta.data_ptr() for theta in given.parameters.values()]
        same = here == self._addresses and list(given.gradient) == list(self.gradient)
        return same and len(given.raw.calls) == len(self.raw.calls)

    def observation(self) -> Observation:
        """A step whose numbers are still to be computed, and held for packing."""
        raw = self.raw
        shares = raw.shares(self.samples) if raw.calls else raw.why
        forms = raw.script.forms(raw.collected) | {name: Dense(value) for name, value in self.early.items()}
        micro = Microbatch(self.samples, self.loss, forms, self.uncovered, shares, diagonals=dict(self.diagonals))
        return Observation(
            step=0,
            parameters=self.parameters,
            gradient=self.gradient,
            microbatches=[micro],
            loss_scale=self.occasion.loss_scale,
            start=self.start,
            half=self.occasion.half,
            prompt=False,
            regularised=set(self.occasion.regularised),
            ways=self.occasion.ways,
            numbers=Numbers(hold=True),
        )

    def numbers_only(self, recorded: Observation, given: Given, numbers: Numbers) -> Observation:
        """A step that was made again: as the first one, but for what is its own."""
        if self._pattern is None:
            self._pattern = self._first_again(recorded, given, numbers).__dict__
        seen = Observation.__new__(Observation)
        seen.__dict__.update(self._pattern)  # made in full it would take longer than what it is made for
        seen.microbatches, seen.numbers = [_bare(given.micro, self.uncovered)], numbers
        seen.regularised, seen._totals = set(self.occasion.regularised), {}
        seen._eigenpair = seen._found_eigenpair()
        return seen

    def _first_again(self, recorded: Observation, given: Given, numbers: Numbers) -> Observation:
        seen = Observation(
            step=0,
            parameters={},
            gradient={},
            microbatches=[_bare(given.micro, self.uncovered)],
            loss_scale=self.occasion.loss_scale,
            half=self.occasion.half,
            prompt=False,
            regularised=set(self.occasion.regularised),
            numbers=numbers,
            names=recorded.names,
            all_names=recorded.all_names,
            rounding=recorded.rounding,
        )
        seen.reduction.of_mean = recorded.reduction.of_mean
        seen.microbatches, seen.numbers = [], Numbers()  # nothing of this step is kept
        seen.reduction.microbatches, seen.reduction.numbers = [], seen.numbers
        return seen


def _bare(micro: Microbatch, uncovered: dict[str, str]) -> Microbatch:
    """Without the tensors that were collected: they are large, and the numbers are read some steps later."""
    bare = Microbatch(micro.samples, micro.loss, {}, uncovered, micro.shares, micro.coupled, micro.diagonals)
    bare.eigenpair = micro.eigenpair
    return bare


def _like(estimates: list[Vectors] | str, draw: Draw) -> list[Vectors]:
    assert not isinstance(estimates, str)
    return [{name: draw(vector) for name, vector in one.items()} for one in estimates]


def _tensors_of(diagonals: Mapping[Diagonal, list[Vectors] | str]) -> Iterator[Tensor]:
    for estimates in diagonals.values():
        for one in estimates if not isinstance(estimates, str) else ():
            yield from one.values()
