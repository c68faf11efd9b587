from __future__ import annotations

from cockpit.core.history import History
from cockpit.core.kinds import Kind
from cockpit.core.record import Record


def record(step: int, name: str, value: float) -> Record:
    return Record(step, name, Kind.SCALAR, value)


def test_records_of_a_step_are_the_same_together_as_one_by_one() -> None:
    records = [record(3, "a", 1.0), record(3, "b", 2.0), record(3, "a", 5.0)]
    together, single = History(), History()
    together.extend(records[:2])
    together.extend(records[2:])
    for each in records:
        single.append(each)
    assert list(together) == list(single)
    assert together.output() == {3: {"a": 5.0, "b": 2.0}}


def test_a_step_without_records_is_unknown() -> None:
    history = History()
    history.extend([])
    assert history.steps() == []
    assert history.output() == {}
