"""The statistics of a step, recorded once for each structure and replayed: on a GPU small nets are bound by launches.

Two recordings: when the gradients are complete, and when the optimizer has stepped. Both run the same code as any other
step, on tensors with fixed addresses; before a replay the step's tensors are copied there, all in one call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cockpit.engine.branches import side_by_side
from cockpit.engine.digest import Digest
from cockpit.engine.feed import Draw, Feed, Stock
from cockpit.engine.form_statistics import Direction
from cockpit.engine.needs import LINE, UPDATE
from cockpit.engine.numbers import Harbour, Manifest, Numbers
from cockpit.engine.observation import Observation
from cockpit.engine.occasion import ROWS, Fixed, Given, Occasion, Performance, Raw
from cockpit.engine.raw import Script
from cockpit.engine.reel import Reel

Replayer = Callable[[Callable[[], Any], torch.device], Callable[[], Any]]
SHARE = 0.2  # of a device's memory that copies of inputs may take, of all recordings together
ROOM = 5  # times the inputs: the memory that must be free for a recording, its copies and what it computes
MAX_PROGRAMS = 16


class Program:
    """One recording, on a GPU."""

    def __init__(
        self, given: Given, start: Mapping[str, Tensor], occasion: Occasion, replayer: Replayer, draw: Draw
    ) -> None:
        self._digest = Digest(given.raw)
        given = self._digest(given)
        self._fixed = fixed = Fixed.like(given, start, occasion, draw)
        self._before = {name: theta.clone() for name, theta in fixed.parameters.items()}
        self.update = {name: torch.zeros_like(theta) for name, theta in fixed.parameters.items()}
        self._starts, self._ends = list(self._before.values()), list(fixed.parameters.values())
        self._harbour = Harbour()
        self._packed, self._manifest = fixed.loss.new_empty(0), Manifest({})
        self._reel: Reel | None = None
        self._feed = Feed(fixed.tensors(), fixed.sources(given))
        device = fixed.loss.device
        self._first = replayer(self._at_gradient, device)
        self._seen: Observation = self._first()[0]
        self._second = replayer(self._at_update, device) if UPDATE in occasion.due else None
        self._moved, self._directions = list(self.update), {n: Direction(self.update[n]) for n in self._seen.names}
        self._rewind()

    def fits(self, given: Given) -> bool:
        """Whether the step is as the one that was recorded."""
        return self._fixed.fits(given)

    # ---- replays

    def observe(self, given: Given) -> Observation:
        """The gradients are complete: an observation that holds numbers only."""
        self._feed(self._fixed.sources(self._digest(given)))
        if given.line is not self._directions:
            self._take_line(given.line)
        self._seen, packed, manifest = self._first()
        numbers = Numbers(harbour=self._harbour)
        numbers.put_packed(packed, manifest)
        return self._fixed.numbers_only(self._seen, given, numbers)

    def _take_line(self, line: Mapping[str, Direction]) -> None:
        """The step before was observed with another recording, or with none."""
        vectors = {name: direction.vector for name, direction in line.items() if direction.vector is not None}
        foreign = [name for name, vector in vectors.items() if vector is not self.update.get(name)]
        if foreign:
            torch._foreach_copy_([self.update[name] for name in foreign], [vectors[name] for name in foreign])

    def mark(self, parameters: Mapping[str, Tensor]) -> None:
        """The optimizer is about to step: only now, the parameters may be changed by hand until then."""
        if self._second is not None:
            torch._foreach_copy_(self._starts, self._ends)

    def step(self, seen: Observation, untouched: bool) -> None:
        """The optimizer has stepped."""
        if self._second is not None and self._reel is not None:
            row = self._reel.advance()
            self._second()
            self._reel.done()
            seen.numbers.put_sent(row)
            seen.moved_names, seen.update = self._moved, self.update
            seen.reduction.directions = self._directions

    # ---- what is recorded

    def _rewind(self) -> None:
        """Recording has filled rows of the reel that belong to no step."""
        if self._second is not None and self._reel is None:
            self._second()
        if self._reel is not None:
            self._reel.rewind()

    def _at_gradient(self) -> tuple[Observation, Tensor, Manifest]:
        needs = self._fixed.occasion.needs
        with side_by_side(self._fixed.loss.device):
            seen = self._fixed.observation()
            line = {name: Direction(vector) for name, vector in self.update.items()} if LINE in needs else None
            seen.prepare(needs, line)
        self._packed, self._manifest = seen.numbers.packed(ROWS)
        return seen, self._packed, self._manifest

    def _at_update(self) -> None:
        updates = list(self.update.values())
        torch._foreach_copy_(updates, self._ends)
        torch._foreach_sub_(updates, self._starts)
        with side_by_side(self._fixed.loss.device):
            self._seen.moved(self.update, self._fixed.occasion.leaving)
        packed, manifest = self._seen.numbers.packed(ROWS)
        whole = torch.cat([self._packed, packed])
        if self._reel is None:
            self._reel = Reel(whole, self._manifest + manifest, self._harbour)
        self._reel.write(whole)


def _fits_on_device(size: int, lacking: int, taken: int, device: torch.device) -> bool:
    """Whether there is room for a recording beside those that there are, and for training to grow.

    ``size`` of its inputs, of which so many bytes are ``lacking``.
    """
    if device.type != "cuda":
        return True
    if lacking + taken > SHARE * torch.cuda.get_device_properties(device).total_memory:
        return False
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (ROOM - 1) * size + lacking <= torch.cuda.mem_get_info(device)[0] + cached


@dataclass
class Programs:
    """Recordings by structure and occasion; a structure is recorded when it has been seen often enough to pay."""

    replayer: Replayer | None = None  # on a GPU
    curved: Replayer | None = None  # for curvature, if another: a second backward pass may come before the update
    taped: bool = False  # on a CPU
    patience: int = 1  # familiar steps before one is recorded
    _sightings: dict[int, int] = field(default_factory=dict)
    _scripts: dict[int, Script | None] = field(default_factory=dict)
    _known: dict[tuple[int, Occasion], Performance | None] = field(default_factory=dict)
    stock: Stock = field(default_factory=Stock)

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
        tensors = list((raw if self.replayer is None else Digest(raw).rest(raw)).tensors())
        size = sum(tensor.nbytes for tensor in tensors)
        fits = self.fits(size, self.stock.lacks(tensors), next(raw.tensors()).device)
        if fits and len(self._known) < MAX_PROGRAMS:
            return True
        self.add(structure, occasion, None)
        return False

    def fits(self, size: int, lacking: int, device: torch.device) -> bool:
        """Whether there is room for a recording with inputs of so many bytes, some of which are lacking."""
        return _fits_on_device(size, lacking, self.stock.nbytes, device)

    def add(self, structure: int, occasion: Occasion, program: Performance | None) -> None:
        """Keep a recording; None: it failed."""
        self._known[structure, occasion] = program
        others = (found for (known, _), found in self._known.items() if known == structure)
        if not any(other is not None for other in others):
            self.forget(structure)
