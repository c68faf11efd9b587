"""Where the numbers of a run end."""

from __future__ import annotations

from math import inf, nan

from cockpit.core.finite import broken, tail
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded


def records(*values: float | None, name: str = "Loss", reason: str = "why") -> list[Record]:
    return [Record(step, name, Kind.SCALAR, v, reason if v is None else None) for step, v in enumerate(values)]


def of(*values: float | None, name: str = "Loss", reason: str = "why") -> Recorded:
    return Recorded(records(*values, name=name, reason=reason))


def test_a_number_at_the_end() -> None:
    assert tail(of(1.0, nan, 2.0), "Loss").broken is None
    assert not tail(of(1.0, nan, 2.0), "Loss").over
    assert broken(of(nan, inf, 3.0)) is None


def test_not_finite_to_the_end() -> None:
    found = tail(of(1.0, nan, 2.0, inf, nan), "Loss")
    assert (found.last, found.since, found.lacking, found.broken, found.word) == (2, 3, 2, 3, "inf")
    assert found.over
    assert tail(of(nan), "Loss").broken == 0
    assert tail(of(1.0, -inf), "Loss").word == "-inf"


def test_undefined_is_not_the_same_as_not_finite() -> None:
    waiting, stopped = tail(of(1.0, None), "Loss"), tail(of(1.0, None, None), "Loss")
    assert not waiting.over, "the last one may have to wait for the next step"
    assert stopped.over
    assert (stopped.since, stopped.broken) == (1, None)
    assert tail(of(1.0, None, reason="gradients are not finite"), "Loss").broken == 1


def test_a_run_is_as_its_loss() -> None:
    noisy = Recorded([*records(1.0, 1.0), *records(nan, nan, name="GradNorm")])
    assert broken(noisy) is None
    assert broken(of(1.0, nan, name="GradNorm")) is not None, "or, without one, as its gradients"
    assert broken(of(nan, name="val_accuracy")) is None, "a metric of the user's does not speak for the run"


def test_nothing_recorded() -> None:
    assert broken(Recorded([])) is None
    assert not tail(Recorded([]), "Loss").over
