"""The statistics of a step, recorded once for each structure and replayed: on a GPU small nets are bound by launches.

Two recordings: when the gradients are complete, and when the optimizer has stepped. Both run the same code as any other
step, on tensors with fixed addresses; before a replay the step's tensors are copied there, all in one call.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from cockpit.engine.feed import Feed
from cockpit.engine.losses import LossCall
from cockpit.engine.microbatch import Microbatch, Vectors
from cockpit.engine.needs import DOT_GRAD, LINE, LOSSES, SQ_NORM, UPDATE, Diagonal, Need
from cockpit.engine.numbers import Harbour, Manifest, Numbers
from cockpit.engine.observation import Observation
from cockpit.engine.raw import Collected, Script
from cockpit.engine.reduction import START
from cockpit.engine.statistics import Direction
from cockpit.layers.layout import Layout

Replayer = Callable[[Callable[[], Any], torch.device], Callable[[], Any]]
SHARE = 0.1  # of a device's memory that copies of inputs may take, of all recordings together
ROOM = 5  # times the inputs: the memory that must be free for a recording, its copies and what it computes
MAX_PROGRAMS = 16
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

    def copied(self) -> "Raw":
        """The same on memory of our own."""
        collected = {}
        for place, (grads, saved) in self.collected.items():
            own = tuple(None if grad is None else torch.empty_like(grad) for grad in grads)
            collected[place] = own, tuple(torch.empty_like(tensor) for tensor in saved)
        return Raw(self.script, collected, [call.like() for call in self.calls], self.layouts, self.why)

    def shares(self, samples: int) -> Tensor:
        """Each sample's share of the loss."""
        parts = [call.contributions(samples, layout) for call, layout in zip(self.calls, self.layouts, strict=True)]
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class Occasion:
    """What a program is recorded for."""

    needs: frozenset[Need]
    due: frozenset[Need]  # without those of a line that ends here
    leaving: bool  # a line begins here
    loss_scale: float
    half: torch.dtype | None
    regularised: frozenset[str]
    diagonals: frozenset[Diagonal] = frozenset()  # those that are there
    followed: frozenset[str] = frozenset()  # parameters whose last update was a multiple of their gradient


class Performance(Protocol):
    """A recording of what is done at a step, to be done again."""

    @property
    def nbytes(self) -> int:
        """Bytes of the copies of its inputs."""

    def fits(
        self,
        raw: Raw,
        micro: Microbatch,
        parameters: Mapping[str, Tensor],
        gradient: Vectors,
        line: Mapping[str, Direction],
    ) -> bool:
        """Whether the step is as the one that was recorded."""

    def observe(self, raw: Raw, micro: Microbatch, gradient: Vectors, line: Mapping[str, Direction]) -> Observation:
        """The gradients are complete."""

    def mark(self, parameters: Mapping[str, Tensor]) -> None:
        """The optimizer is about to step."""

    def step(self, seen: Observation, untouched: bool) -> None:
        """The optimizer has stepped; ``untouched``: the gradient is still what the backward pass made it."""


class Program:
    """One recording, on a GPU."""

    def __init__(
        self,
        raw: Raw,
        micro: Microbatch,
        parameters: Vectors,
        gradient: Vectors,
        start: Mapping[str, Tensor],
        occasion: Occasion,
        replayer: Replayer,
    ) -> None:
        self.occasion, self._parameters, self._start = occasion, parameters, start
        self._raw, self._samples, self._uncovered = raw.copied(), micro.samples, micro.uncovered
        self._loss = torch.empty_like(micro.loss)
        self._diagonals = {need: _like(micro.diagonals[need]) for need in occasion.diagonals}
        self._gradient = {name: torch.empty_like(grad) for name, grad in gradient.items()}
        self._before = {name: torch.empty_like(theta) for name, theta in parameters.items()}
        self.update = {name: torch.zeros_like(theta) for name, theta in parameters.items()}
        self._versions: list[int] = []
        self._harbour = Harbour()
        self._packed, self._manifest = torch.empty(0), Manifest({})
        self._addresses = [theta.data_ptr() for theta in parameters.values()]
        static = [*self._raw.tensors(), self._loss, *self._gradient.values(), *_tensors_of(self._diagonals)]
        self._feed = Feed(static, self._sources(raw, micro, gradient))
        device = micro.loss.device
        self._first = replayer(self._at_gradient, device)
        self._seen: Observation = self._first()[0]
        self._second = replayer(self._at_update, device) if UPDATE in occasion.due else None

    @property
    def nbytes(self) -> int:
        """Bytes of the copies of its inputs."""
        return self._feed.nbytes

    def fits(
        self,
        raw: Raw,
        micro: Microbatch,
        parameters: Mapping[str, Tensor],
        gradient: Vectors,
        line: Mapping[str, Direction],
    ) -> bool:
        """Whether parameters are where they were and no gradient is missing."""
        here = [theta.data_ptr() for theta in parameters.values()]
        same = here == self._addresses and list(gradient) == list(self._gradient)
        return same and len(raw.calls) == len(self._raw.calls)

    # ---- replays

    def observe(self, raw: Raw, micro: Microbatch, gradient: Vectors, line: Mapping[str, Direction]) -> Observation:
        """The gradients are complete: an observation that holds numbers only."""
        self._feed(self._sources(raw, micro, gradient))
        vectors = {name: direction.vector for name, direction in line.items() if direction.vector is not None}
        foreign = [name for name, vector in vectors.items() if vector is not self.update.get(name)]
        if foreign:
            torch._foreach_copy_([self.update[name] for name in foreign], [vectors[name] for name in foreign])
        self._seen, packed, manifest = self._first()
        self._versions = [theta._version for theta in self._parameters.values()]
        numbers = Numbers(harbour=self._harbour)
        numbers.put_packed(packed, manifest)
        seen = Observation(
            step=0,
            parameters={},
            gradient={},
            microbatches=[replace(micro, forms={}, uncovered=self._uncovered)],
            loss_scale=self.occasion.loss_scale,
            half=self.occasion.half,
            prompt=False,
            regularised=set(self.occasion.regularised),
            numbers=numbers,
            names=self._seen.names,
            all_names=self._seen.all_names,
            rounding=self._seen.rounding,
        )
        seen.reduction.of_mean = self._seen.reduction.of_mean
        return seen

    def mark(self, parameters: Mapping[str, Tensor]) -> None:
        """The optimizer is about to step; the parameters may have been changed by hand since the gradients came."""
        if self._second is not None and [theta._version for theta in parameters.values()] != self._versions:
            torch._foreach_copy_(list(self._before.values()), list(self._parameters.values()))

    def step(self, seen: Observation, untouched: bool) -> None:
        """The optimizer has stepped."""
        if self._second is not None:
            seen.numbers.put_packed(*self._second())
            seen.moved_names, seen.update = list(self.update), self.update
            seen.reduction.directions = {name: Direction(self.update[name]) for name in seen.names}

    def _sources(self, raw: Raw, micro: Microbatch, gradient: Vectors) -> list[Tensor]:
        curved = {need: micro.diagonals[need] for need in self._diagonals}
        return [*raw.tensors(), micro.loss, *gradient.values(), *_tensors_of(curved)]

    # ---- what is recorded

    def _at_gradient(self) -> tuple[Observation, Tensor, Manifest]:
        raw, occasion = self._raw, self.occasion
        shares = raw.shares(self._samples) if raw.calls else raw.why
        forms = raw.script.forms(raw.collected)
        micro = Microbatch(self._samples, self._loss, forms, self._uncovered, shares, diagonals=dict(self._diagonals))
        seen = Observation(
            step=0,
            parameters=self._parameters,
            gradient=self._gradient,
            microbatches=[micro],
            loss_scale=occasion.loss_scale,
            start=self._start,
            half=occasion.half,
            prompt=False,
            regularised=set(occasion.regularised),
            numbers=Numbers(hold=True),
        )
        line = {name: Direction(vector) for name, vector in self.update.items()} if LINE in occasion.needs else None
        seen.prepare(occasion.needs, line)
        if UPDATE in occasion.due:
            torch._foreach_copy_(list(self._before.values()), list(self._parameters.values()))
        self._packed, self._manifest = seen.numbers.packed(ROWS)
        return seen, self._packed, self._manifest

    def _at_update(self) -> tuple[Tensor, Manifest]:
        for name, theta in self._parameters.items():
            torch.sub(theta, self._before[name], out=self.update[name])
        self._seen.moved(self.update, self.occasion.leaving)
        packed, manifest = self._seen.numbers.packed(ROWS)
        return torch.cat([self._packed, packed]), self._manifest + manifest


def _like(estimates: list[Vectors] | str) -> list[Vectors]:
    assert not isinstance(estimates, str)
    return [{name: torch.empty_like(vector) for name, vector in one.items()} for one in estimates]


def _tensors_of(diagonals: Mapping[Diagonal, list[Vectors] | str]) -> Iterator[Tensor]:
    for estimates in diagonals.values():
        for one in estimates if not isinstance(estimates, str) else ():
            yield from one.values()


def _fits_on_device(size: int, taken: int, device: torch.device) -> bool:
    """Whether there is room for a recording beside those that there are, and for training to grow."""
    if device.type != "cuda":
        return True
    if size + taken > SHARE * torch.cuda.get_device_properties(device).total_memory:
        return False
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return ROOM * size <= torch.cuda.mem_get_info(device)[0] + cached


@dataclass
class Programs:
    """Recordings by structure and occasion; a structure is recorded when it has been seen often enough to pay."""

    replayer: Replayer | None = None  # on a GPU
    taped: bool = False  # on a CPU
    patience: int = 1  # familiar steps before one is recorded
    _sightings: dict[int, int] = field(default_factory=dict)
    _scripts: dict[int, Script | None] = field(default_factory=dict)
    _known: dict[tuple[int, Occasion], Performance | None] = field(default_factory=dict)
    _bytes: int = 0  # of copies of inputs

    @property
    def wanted(self) -> bool:
        """Whether anything is recorded."""
        return self.taped or self.replayer is not None

    def script(self, structure: int) -> Script | None:
        """What to collect in a graph of this structure."""
        return self._scripts.get(structure)

    def rehearse(self, structure: int) -> bool:
        """Whether the rules of this structure are to be recorded now."""
        if not self.wanted or structure in self._scripts:
            return False
        seen = self._sightings[structure] = self._sightings.get(structure, 0) + 1
        return seen > self.patience * (1 + len(self._known))  # the more there are, the rarer is a new one

    def keep(self, structure: int, script: Script | None) -> None:
        """Remember what the rules read; None: they cannot be replayed."""
        self._scripts[structure] = script

    def forget(self, structure: int) -> None:
        """A structure that turned out not to be the same every time."""
        self._scripts[structure] = None

    def find(self, structure: int, occasion: Occasion) -> Performance | None:
        """The recording for this occasion."""
        return self._known.get((structure, occasion))

    def wants(self, structure: int, occasion: Occasion, raw: Raw) -> bool:
        """Whether a recording is still to be tried."""
        if not self.wanted or (structure, occasion) in self._known:
            return False
        size = sum(tensor.nbytes for tensor in raw.tensors())
        small = self.fits(size, next(raw.tensors()).device)
        if not small or len(self._known) >= MAX_PROGRAMS:
            self._known[structure, occasion] = None
            self.forget(structure)
        return small and len(self._known) < MAX_PROGRAMS

    def fits(self, size: int, device: torch.device) -> bool:
        """Whether there is room for copies of so many bytes."""
        return _fits_on_device(size, self._bytes, device)

    def claim(self, size: int, device: torch.device) -> bool:
        """Take so many bytes, if there is room."""
        small = self.fits(size, device)
        self._bytes += size if small else 0
        return small

    def add(self, structure: int, occasion: Occasion, program: Performance | None) -> None:
        """Keep a recording; None: it failed."""
        self._known[structure, occasion] = program
        self._bytes += 0 if program is None else program.nbytes
        if program is None:
            self.forget(structure)
