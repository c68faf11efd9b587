"""Every quantity on every case of the table, against the slow reference: right, or undefined with the reason."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
import torch
from tests.cases import CASES, Case
from tests.reference import reference_run
from tests.watched import mismatch, watched_run

from cockpit.core.errors import CockpitError

ROUNDING = 1e-5
ROUNDED = {"TICDiag[hessian]": 5e-2}  # divides by curvatures close to zero
RARE = {"lstm_deep": dict.fromkeys(("EarlyStopping", "MeanGSNR"), inf)}  # and by variances close to zero
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@every_case
def test_right_or_undefined_with_the_reason(case: Case) -> None:
    check(case, case, 0.0)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES.values() if case.dtype is torch.float64],
    ids=[name for name, case in CASES.items() if case.dtype is torch.float64],
)
def test_in_single_precision(case: Case) -> None:
    """What users train in, and what the compiled loops are for: the same table, right to rounding."""
    check(in_single(case), case, ROUNDING)


def in_single(case: Case) -> Case:
    """The case in single precision, with what may be expected of it."""
    loose = ROUNDED | RARE.get(case.name, {}) | case.loose
    return replace(case, dtype=torch.float32, tolerance=max(case.tolerance, 3e-3), loose=loose)


def check(case: Case, exact: Case, rounding: float) -> None:
    """Every value of a case, against the reference of the same one in double precision."""
    try:
        pit = watched_run(case)
    except CockpitError:
        assert case.may_refuse
        return
    found = {(record.step, record.name): record for record in pit.history}
    wrong, compared = [], 0
    for step, values in reference_run(exact).items():
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
            elif why := mismatch(case, name, record.value, expected, rounding):
                wrong.append(f"{name} at {step}: {why}")
            else:
                compared += 1
    assert not wrong, "\n" + "\n".join(wrong[:20])
    assert compared >= 20


def allowed(case: Case, name: str, reason: str) -> bool:
    """Whether the case says that this quantity may be undefined, and for this reason."""
    word = case.expected_undefined.get(name, case.expected_undefined.get(name.split("[")[0]))
    return word is not None and word.lower() in reason.lower()
