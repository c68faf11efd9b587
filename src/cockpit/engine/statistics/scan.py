"""``scan``: the one place where forms and statistics meet."""

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod

import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Place, Statistic
from cockpit.layers.forms import AnyForm, Indexed, Scratch
from cockpit.layers.parts import cut, products

FEW_ROWS = 64  # rows of a parameter, of all samples at once, that are worth a chunk
READ = 8  # an element of g_n that is read takes as long as so many multiplications

Found = dict[Statistic, Tensor]


def scan_all(parts: Sequence[AnyForm], wanted: Sequence[Statistic], at: At, elements: int) -> Found:
    """Every statistic of a parameter whose samples came in several parts, one form for each."""
    bases = list(dict.fromkeys(statistic.of or statistic for statistic in wanted))
    found, *others = (scan(form, bases, at, elements) for form in parts)
    for other in others:
        for s in bases:
            found[s] = torch.cat([found[s], other[s]]) if s.keeps == "sample" else s.join(found[s], other[s])
    return {s: found[s] if s.of is None or s.finish is None else s.finish(found[s.of], at) for s in wanted}


def scan(form: AnyForm, wanted: Sequence[Statistic], at: At, elements: int) -> Found:
    """Every statistic of all g_n of a parameter, with at most so many elements of g_n at a time."""
    found: Found = {}
    if isinstance(form, Indexed):
        rows = form.coalesce()
        found = {s: s.rows(rows, at) for s in wanted if s.rows is not None}
        at.took("touched rows", found)
    quick = _by_shortcuts(form, [s for s in wanted if s not in found], at, elements)
    at.took("shortcut", quick)
    found |= quick
    rest = [s for s in wanted if s not in found]
    at.took("definition", rest)
    of_samples: dict[Statistic, dict[int, list[Tensor]]] = {s: {} for s in rest if s.keeps == "sample"}
    for n, place, g in tiles(form, elements) if rest else ():
        beside, first_row = at.cut(place), 0 if place is ... else place.start
        for s in rest:
            part = s.chunk(g, beside)
            if s.keeps == "sample":
                of_samples[s].setdefault(first_row, []).append(part.clone() if _inside(part, g) else part)
            else:
                _join(found, s, part, form, n, place)
    for s, parts in of_samples.items():
        found[s] = reduce(s.join, map(torch.cat, parts.values()))
    return found


def _inside(part: Tensor, g: Tensor) -> bool:
    """Whether a result is a view of the chunk, which is overwritten."""
    return part.untyped_storage().data_ptr() == g.untyped_storage().data_ptr()


def _by_shortcuts(form: AnyForm, bases: Sequence[Statistic], at: At, elements: int) -> Found:
    """Those that take fewer multiplications by an identity on factors than by forming and reading every g_n."""
    offers = {s: offer for s in bases if (offer := s.shortcut(form, at, elements)) is not None}
    reading = READ * form.samples * prod(form.shape)
    by_itself = {s for s, offer in offers.items() if offer.operations <= reading}
    if len(offers) == len(bases):  # nothing else needs g_n
        others = [s for s in bases if s not in by_itself]
        if sum(offers[s].operations for s in others) <= products(form) + reading * len(others):
            by_itself |= set(others)
    return {s: offers[s].compute() for s in bases if s in by_itself}


def tiles(form: AnyForm, elements: int) -> Iterator[tuple[slice, Place, Tensor]]:
    """All of g_n, so many elements at a time: samples, rows of the parameter, and g [n, *rows]; it is overwritten."""
    if form.size <= elements or not form.shape:
        yield from _whole(form, max(1, elements // max(1, form.size)), ...)
        return
    rows, inner = form.shape[0], max(1, form.size // form.shape[0])
    together = form.samples if form.samples * inner * FEW_ROWS <= elements else 1
    step = max(1, elements // (inner * together))
    for begin in range(0, rows, step):
        place = slice(begin, min(begin + step, rows))
        part = cut(form, place.start, place.stop)
        if part is None:
            yield from _whole(form, 1, ...)
            return
        yield from _whole(part, together, place)


def _whole(form: AnyForm, step: int, place: Place) -> Iterator[tuple[slice, Place, Tensor]]:
    scratch = Scratch()
    for begin in range(0, form.samples, step):
        n = slice(begin, min(begin + step, form.samples))
        yield n, place, form.form(n.start, n.stop, scratch)


def _join(found: Found, s: Statistic, part: Tensor, form: AnyForm, n: slice, place: Place) -> None:
    """Add a part to a total, or to the rows of the parameter that it belongs to."""
    if s.keeps == "total" or place is ...:
        found[s] = part if s not in found else s.join(found[s], part)
        return
    if s not in found:
        found[s] = part.new_empty(form.shape)
    found[s][place] = part if n.start == 0 else s.join(found[s][place], part)
