"""Frames filled by a template are those that taking every record apart gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from tests.store.contract import EDGES, UNEVEN, flat, frame, square

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store.layout import MANY, Packer
from cockpit.store.template import Template


class Thorough(Packer):
    """Never remembers a frame."""

    def _remember(self, *_: Any) -> None:
        pass


def usual(step: int) -> list[Record]:
    """What most steps record, and something of the step before."""
    return [
        Record(step, "Loss", Kind.SCALAR, 0.5 + step),
        Record(step, "Norm", Kind.PER_PARAMETER, {"a": 1.0 * step, "b": -0.0}),
        Record(step, "Hist", Kind.HISTOGRAM, flat(step)),
        Record(step, "Trace", Kind.PER_PARAMETER, {"a": 1.0, "b": 2.0}, None, {"curvature": "ggn", "total": "sum"}),
        Record(step - 1, "Alpha", Kind.SCALAR, 0.1 * step, None, {"length": 1.0, "slope": -2.0}),
        Record(step, "rate", Kind.SCALAR, 0.1),
    ]


def swapped(place: int, **changes: Any) -> Callable[[int], list[Record]]:
    """The usual records, one of them changed."""

    def records(step: int) -> list[Record]:
        found = usual(step)
        found[place] = found[place]._replace(**changes)
        return found

    return records


ODD: dict[str, Callable[[int], list[Record]]] = {
    "usual": usual,
    "everything": frame,
    "no loss": swapped(0, value=None, reason="why"),
    "another reason": swapped(0, value=None, reason="why not"),
    "a reason beside a value": swapped(1, reason="not finite: a"),
    "nan": swapped(0, value=nan),
    "infinite": swapped(1, value={"a": inf, "b": nan}),
    "integer": swapped(0, value=3),
    "truth": swapped(0, value=True),
    "numpy": swapped(0, value=np.float64(0.25)),
    "a text": swapped(0, value="text"),
    "other keys": swapped(1, value={"a": 1.0, "c": 1.0}),
    "other order": swapped(1, value={"b": 1.0, "a": 1.0}),
    "more keys": swapped(1, value={"a": 1.0, "b": 1.0, "c": 1.0}),
    "an integer inside": swapped(1, value={"a": 1, "b": 1.0}),
    "no number inside": swapped(1, value={"a": None, "b": 1.0}),
    "empty": swapped(1, value={}),
    "a list": swapped(1, value=["a", "b"]),
    "nothing": swapped(1, value=None, reason="none"),
    "other details": swapped(4, details={"length": 1.0, "other": 2.0}),
    "no details": swapped(4, details={}),
    "new details": swapped(0, details={"error": 0.5}),
    "nested details": swapped(3, details={"curvature": "ggn", "total": "sum", "standard_error": {"a": 1.0}}),
    "another word": swapped(3, details={"curvature": "hessian", "total": "sum"}),
    "a long word": swapped(3, details={"curvature": "g" * 100, "total": "sum"}),
    "another kind": swapped(0, kind=Kind.PER_SAMPLE),
    "an array": swapped(0, kind=Kind.PER_SAMPLE, value=np.arange(3.0)),
    "another name": swapped(0, name="Verlust"),
    "other bins": swapped(2, value=Histogram((UNEVEN,), {"a": np.arange(4)})),
    "more bins": swapped(2, value=Histogram((np.linspace(-1, 1, 9),), {"a": np.arange(8)})),
    "other limits": swapped(2, value=Histogram((2 * EDGES,), flat(1).parts)),
    "other parameters": swapped(2, value=Histogram((EDGES,), {"x": np.arange(4), "y": np.arange(4)})),
    "two axes": swapped(2, value=square(2)),
    "an empty histogram": swapped(2, value=Histogram((EDGES,), {})),
    "no histogram": swapped(2, value=None, reason="no batch"),
    "fewer": lambda step: usual(step)[:3],
    "another order of records": lambda step: usual(step)[::-1],
    "twice": lambda step: [*usual(step), *swapped(0, details={"x": 1.0})(step)],
    "logged": lambda step: [Record(step, "accuracy", Kind.SCALAR, 0.5)],
}


def alike(quick: Packer, thorough: Packer, step: int, what: str) -> None:
    assert quick.pack(ODD[what](step), 1.5) == thorough.pack(ODD[what](step), 1.5), (step, what)


@pytest.mark.parametrize("what", ODD)
def test_one_odd_step_among_the_usual(what: str) -> None:
    quick, thorough = Packer(1, 1), Thorough(1, 1)
    order = ["usual"] * 4 + [what] + ["usual"] * 3 + [what] * 4 + ["usual"] * 3
    for step, each in enumerate(order):
        alike(quick, thorough, step, each)


@pytest.mark.parametrize("seed", range(5))
def test_odd_steps_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    quick, thorough = Packer(1, 1), Thorough(1, 1)
    kinds = chance.sample(list(ODD), 4)
    for step in range(300):
        alike(quick, thorough, step, chance.choice(kinds if step < 200 else list(ODD)))


def test_the_usual_step_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    filled, fill = [], Template.fill

    def counted(self: Template, *given: Any) -> Any:
        filled.append(fill(self, *given))
        return filled[-1]

    monkeypatch.setattr(Template, "fill", counted)
    packer = Packer(1, 1)
    for step in range(10):
        packer.pack(usual(step), 1.0)
    assert len(filled) == 16  # two frames a step; the first brings the layouts, the second is remembered
    assert None not in filled


def test_a_value_that_cannot_be_stored_leaves_no_wrong_template() -> None:
    quick, thorough = Packer(1, 1), Thorough(1, 1)
    recursive: list[Any] = []
    recursive.append(recursive)
    for step in range(3):
        alike(quick, thorough, step, "usual")
    for packer in (quick, thorough):
        broken = [*swapped(0, details={"error": 0.5})(3)[:1], Record(3, "Odd", Kind.SCALAR, recursive)]
        with pytest.raises((ValueError, RecursionError)):
            packer.pack(broken, 1.0)
    for step in range(4, 7):
        alike(quick, thorough, step, "usual")


def test_words_that_always_change_are_kept_with_each_record_from_then_on() -> None:
    quick, thorough = Packer(1, 1), Thorough(1, 1)
    for step in range(MANY + 20):
        records = [Record(step, "x", Kind.SCALAR, 1.0, None, {"word": str(step)})]
        assert quick.pack(records, 1.0) == thorough.pack(records, 1.0)
        alike(quick, thorough, step, "usual")
