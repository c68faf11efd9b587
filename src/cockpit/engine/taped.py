"""The statistics of a step on a CPU, written down once for each structure and made again.

Where layers are small, most of a tracked step is spent on finding out what to do, which is the same at every step.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from math import prod

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import gram
from cockpit.engine.form_statistics import Direction
from cockpit.engine.motion import Motion
from cockpit.engine.needs import LINE, UPDATE, Hist1d, Hist2d, Need, SignalToNoise
from cockpit.engine.numbers import Manifest, Numbers
from cockpit.engine.observation import Observation
from cockpit.engine.occasion import ROWS, Fixed, Given, Occasion
from cockpit.engine.projections import vector_of
from cockpit.engine.tape import Tape
from cockpit.layers.forms import AnyForm, Convolved, Factored, Summed

Line = Mapping[str, Direction]
MOST = 2**26  # bytes of inputs; deciding costs little beside larger ones
HELD = 2**24  # bytes of inputs that are held until the next tracked step: letting go of them takes time, too
EACH = 2**20  # bytes of g_n that are formed, for each parameter: with more of them, likewise


def suits(needs: frozenset[Need]) -> bool:
    """Whether everything that is needed can be written down."""
    return all(isinstance(need, str | Hist1d | Hist2d | SignalToNoise) for need in needs)


def followed(forms: Mapping[str, AnyForm], line: Line) -> frozenset[str]:
    """Parameters whose update is a multiple of a mean gradient, projected on by inner products of the factors."""
    found = set()
    for name, direction in line.items():
        form, other = forms.get(name), direction.mean_of
        if not isinstance(form, Factored) or not isinstance(other, Factored) or not form.outer:
            continue
        if gram.mean_is_cheaper(form, other, direction.vector is not None):
            found.add(name)
    return frozenset(found)


class Taped:
    """One recording."""

    def __init__(self, given: Given, start: Mapping[str, Tensor], occasion: Occasion) -> None:
        forms = given.raw.script.forms(given.raw.collected)
        self._names = [name for name in given.parameters if name in forms and name not in given.micro.uncovered]
        _check(forms, self._names, occasion, given.line)
        self._fixed = fixed = Fixed.like(given, start, occasion)
        along = self._names if LINE in occasion.needs and occasion.arriving else []
        past = followed(forms, given.line)
        self._past = {name: _blank(given.line[name].mean_of) for name in along if name in past}
        self._update = {name: torch.empty_like(fixed.parameters[name]) for name in along if name not in past}
        self._weights = torch.ones(len(self._names), dtype=torch.float64, device="cpu")
        self._motion = Motion(steady=True)
        self._inputs = [*fixed.tensors(), *self._update.values(), *_factors(self._past)]
        self._ready: list[Tensor] = []  # of a step that fits
        sources = self._sources(given)
        size = sum(source.nbytes for source in sources)
        if size > MOST:
            raise Undefined("the layers are large")
        self._heavy = size > HELD
        self._layout = [(source.shape, source.stride(), source.dtype) for source in sources]
        self._point(sources)
        self._tape = Tape(
            self._at_gradient, self._inputs, lambda result: _tensors(result[0].microbatches[0].forms.values())
        )
        self._seen = self._tape.result[0]
        self._verify(sources)

    # ---- inputs: pointed at the tensors of a step, which are read where they are

    def _sources(self, given: Given) -> list[Tensor]:
        update = [vector_of(given.line[name]) for name in self._update]
        past = {name: _factored(given.line[name].mean_of) for name in self._past}
        return [*self._fixed.sources(given), *update, *_factors(past)]

    def _point(self, sources: Sequence[Tensor]) -> None:
        for tensor, source in zip(self._inputs, sources, strict=True):
            tensor.set_(source)  # type: ignore[call-overload]

    def fits(self, given: Given) -> bool:
        """Whether parameters are where they were, and everything else is laid out as it was."""
        if not self._fixed.fits(given) or any(name not in given.line for name in (*self._update, *self._past)):
            return False
        self._ready = self._sources(given)
        return [(source.shape, source.stride(), source.dtype) for source in self._ready] == self._layout

    # ---- a step

    def observe(self, given: Given) -> Observation:
        """The gradients of a step that fits are complete: an observation that holds numbers only."""
        self._point(self._ready)
        self._ready = []
        if self._past:
            weights = [given.line[name].coefficient if name in self._past else 1.0 for name in self._names]
            self._weights.numpy()[:] = weights
        _, packed, manifest = self._tape()
        numbers = Numbers()
        numbers.put_packed(packed, manifest)
        numbers.send()  # what is packed is overwritten at the next step
        if UPDATE not in self._fixed.occasion.due:
            self._let_go()
        return self._fixed.numbers_only(self._seen, given, numbers)

    def mark(self, parameters: Mapping[str, Tensor]) -> None:
        """The optimizer is about to step."""
        if UPDATE in self._fixed.occasion.due:
            self._motion.mark(parameters)

    def step(self, seen: Observation, untouched: bool) -> None:
        """The optimizer has stepped; ``untouched``: the gradient is still what the backward pass made it."""
        if not self._motion.marked:
            return
        fixed, mine = self._fixed, self._seen
        mine.numbers = mine.reduction.numbers = seen.numbers
        update = self._motion.take(fixed.parameters, fixed.gradient if untouched else None, self._past)
        mine.moved(update, fixed.occasion.leaving, self._motion if untouched else None)
        seen.moved_names, seen.update = mine.moved_names, update
        seen.reduction.directions = mine.reduction.directions
        self._let_go()

    def _let_go(self) -> None:
        """Nothing of the step is read any more, but for factors that the next one may project on."""
        if self._heavy:
            forms = self._seen.microbatches[0].forms
            self._tape.let_go(_factors({name: form for name, form in forms.items() if not _formed(form)}))

    # ---- what is written down

    def _at_gradient(self) -> tuple[Observation, Tensor, Manifest]:
        seen = self._fixed.observation()
        seen.reduction.weights = self._weights
        line = {name: Direction(vector) for name, vector in self._update.items()}
        line |= {name: Direction(None, form) for name, form in self._past.items()}
        seen.prepare(self._fixed.occasion.needs, line or None)
        packed, manifest = seen.numbers.packed(ROWS)
        return seen, packed, manifest

    def _verify(self, sources: Sequence[Tensor]) -> None:
        """With other numbers, the tape must give what the function gives."""
        self._point([_other(source) for source in sources])
        replayed = self._tape()[1].clone()
        fresh = self._at_gradient()[1]
        self._point(sources)
        if not torch.equal(replayed.nan_to_num(0.5), fresh.nan_to_num(0.5)):
            raise Undefined("what is done depends on the numbers")


def _check(forms: Mapping[str, AnyForm], names: list[str], occasion: Occasion, line: Line) -> None:
    if not suits(occasion.needs):
        raise Undefined("curvature is needed")
    for name in names:
        if forms[name].dtype is not torch.float32:
            raise Undefined(f"{name} is not in single precision")
    formed = [name for name in names if _formed(forms[name])]
    if formed and any(isinstance(need, Hist2d) for need in occasion.needs):
        raise Undefined(f"{formed[0]}: how a joint histogram is counted depends on the numbers")
    if sum(_formed(forms[name]) for name in names) > EACH * len(names):
        raise Undefined("the layers are large")
    if LINE in occasion.needs and occasion.arriving and any(name not in line for name in names):
        raise Undefined("where the step before led is not known")


def _formed(form: AnyForm) -> int:
    """Bytes of g_n, where its factors are not enough."""
    needed = isinstance(form, Convolved | Summed) or (isinstance(form, Factored) and not form.outer)
    return form.samples * prod(form.shape) * form.dtype.itemsize if needed else 0


def _factors(forms: Mapping[str, AnyForm]) -> Iterator[Tensor]:
    """Factors of all forms that have some: what the next step may project on."""
    for form in forms.values():
        yield from (form.row, form.col) if isinstance(form, Factored) else ()


def _tensors(forms: Iterable[AnyForm]) -> Iterator[Tensor]:
    """What is read of a step's forms when the optimizer has stepped."""
    for form in forms:
        if isinstance(form, Summed):
            yield from _tensors(form.parts)
        else:
            yield from (value for field in fields(form) if isinstance(value := getattr(form, field.name), Tensor))


def _factored(form: AnyForm | None) -> Factored:
    if not isinstance(form, Factored):
        raise Undefined("the step before was of another kind")
    return form


def _blank(form: AnyForm | None) -> Factored:
    given = _factored(form)
    return replace(given, row=torch.empty_like(given.row), col=torch.empty_like(given.col))


def _other(tensor: Tensor) -> Tensor:
    """Different numbers in the same layout; labels change places."""
    found = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    found.copy_(tensor.flip(0) if tensor.dim() else tensor)
    return found.mul_(0.75) if found.is_floating_point() else found
