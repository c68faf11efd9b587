"""A run as it was at an earlier step."""

from __future__ import annotations

import pytest
from tests.plots.samples import LATER, METADATA, records

from cockpit.core.kinds import Kind
from cockpit.core.recorded import Recorded
from cockpit.plots.until import Until


@pytest.mark.parametrize("step", [-1, 0, 4, 9, 100])
def test_it_equals_a_run_that_ended_there(step: int) -> None:
    cut = Until(Recorded(records(), "a", METADATA), step)
    short = Recorded([record for record in records() if record.step <= step], "a", METADATA)
    assert (cut.name, cut.metadata) == (short.name, short.metadata)
    for name, kind in cut.kinds.items():
        assert cut.scalar(name).steps.tolist() == short.scalar(name).steps.tolist()
        assert cut.scalar(name).values.tolist() == pytest.approx(short.scalar(name).values.tolist(), nan_ok=True)
        assert cut.parts(name).values.tolist() == short.parts(name).values.tolist()[: len(cut.parts(name))]
        assert cut.counted(name).tolist() == short.counted(name).tolist()
        assert dict(cut.reasons(name)) == short.reasons(name)
        if kind is Kind.HISTOGRAM and step >= 0:
            assert (cut.histogram(name, 0).counts == short.histogram(name, 0).counts).all()


def test_details() -> None:
    cut = Until(Recorded(records()), 4)
    assert cut.constant("HessTrace", "curvature") == "ggn"
    assert len(cut.detail("HessTrace", "curvature")) == 0
    assert cut.reasons("Alpha") == {}
    assert list(Until(cut.source, 9).reasons("Alpha")) == [LATER]
