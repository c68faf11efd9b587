from __future__ import annotations

import json
from math import nan
from typing import Any

import numpy as np

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store.item import Frame, Item, Layout
from cockpit.store.layout import MANY, Packer, fields, notes, width
from cockpit.store.tail import split


def packed(packer: Packer, *records: Record) -> tuple[list[Layout], list[Frame]]:
    items: list[Item] = packer.pack(records, 1.0)
    return [item for item in items if isinstance(item, Layout)], [item for item in items if isinstance(item, Frame)]


def scalar(step: int, value: Any, reason: str | None = None, **details: Any) -> Record:
    return Record(step, "x", Kind.SCALAR, value, reason, details)


def test_a_layout_is_given_out_once() -> None:
    packer = Packer(1, 5)
    layouts, frames = packed(packer, scalar(0, 1.0), scalar(1, 2.0))
    assert [layout.id for layout in layouts] == [5]
    assert [(frame.step, frame.layout) for frame in frames] == [(0, 5), (1, 5)]
    assert packed(packer, scalar(2, 3.0))[0] == []
    assert packed(packer.again(), scalar(2, 3.0))[0][0].id == 6


def test_numbers_are_eight_bytes_each() -> None:
    layouts, frames = packed(Packer(1, 1), scalar(0, 1.5, error=0.5, word="ggn"))
    assert np.frombuffer(frames[0].numbers, "<f8").tolist() == [1.5, 0.5]
    assert frames[0].tail is None
    (field,) = fields(layouts[0].text)
    assert (field.columns, field.detail_columns, field.words) == (0, {"error": 1, "word": None}, {"word": "ggn"})
    assert width([field]) == 2


def test_undefined_values_keep_the_layout_and_a_nan_of_the_user_has_no_reason() -> None:
    packer = Packer(1, 1)
    first = packed(packer, scalar(0, 1.0, error=0.5))
    second = packed(packer, scalar(1, None, "too small"))
    third = packed(packer, scalar(2, nan, error=nan))
    assert (len(first[0]), second[0], third[0]) == (1, [], [])
    assert third[1][0].notes is None
    (field,) = fields(first[0][0].text)
    found = notes(str(second[1][0].notes))
    record = field.record(1, np.frombuffer(second[1][0].numbers).tolist(), split(second[1][0].tail), found[0])
    assert record == scalar(1, None, "too small")


def test_words_that_always_change_do_not_make_endless_layouts() -> None:
    packer = Packer(1, 1)
    made = [len(packed(packer, scalar(step, 1.0, word=str(step)))[0]) for step in range(MANY + 50)]
    assert sum(made) == MANY + 1
    *_, frame = packed(packer, scalar(0, 1.0, word="last"))[1]
    assert json.loads(split(frame.tail)[0]) == "last"
