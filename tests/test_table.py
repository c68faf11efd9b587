"""Every quantity on every case of the table, against the slow reference: right, or undefined with the reason."""

from __future__ import annotations

import pytest
from tests.cases import CASES, Case
from tests.reference import reference_run
from tests.watched import mismatch, watched_run

from cockpit.core.errors import CockpitError

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@every_case
def test_right_or_undefined_with_the_reason(case: Case) -> None:
    try:
        pit = watched_run(case)
    except CockpitError:
        assert case.may_refuse
        return
    found = {(record.step, record.name): record for record in pit.history}
    wrong, compared = [], 0
    for step, values in reference_run(case).items():
        for name, expected in values.items():
            record = found.get((step, name))
            if record is None:
                wrong.append(f"{name} at {step} is missing")
            elif record.value is None:
                if not record.reason:
                    wrong.append(f"{name} at {step} is undefined without a reason")
                elif expected is not None and not allowed(case, name, record.reason):
                    wrong.append(f"{name} at {step} is undefined: {record.reason}; expected {expected}")
            elif expected is None:
                wrong.append(f"{name} at {step} is {record.value}, should be undefined")
            elif why := mismatch(case, name, record.value, expected):
                wrong.append(f"{name} at {step}: {why}")
            else:
                compared += 1
    assert not wrong, "\n" + "\n".join(wrong[:20])
    assert compared >= 20


def allowed(case: Case, name: str, reason: str) -> bool:
    """Whether the case says that this quantity may be undefined, and for this reason."""
    word = case.expected_undefined.get(name, case.expected_undefined.get(name.split("[")[0]))
    return word is not None and word.lower() in reason.lower()
