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
from cockpit.core.history import History
from cockpit.engine import native
from cockpit.engine.observation import Observation
from cockpit.engine.occasion import Given
from cockpit.engine.taped import Taped
from cockpit.quantities import preset

ROUNDING = 1e-5
ROUNDED = {"TICDiag[hessian]": 5e-2}  # divides by curvatures close to zero
RARE = {"lstm_deep": dict.fromkeys(("EarlyStopping", "MeanGSNR"), inf)}  # and by variances close to zero
FURTHER = ("CABS", "MeanGSNR", "EarlyStopping")  # that need no curvature either
# rules that ask their node, masks, half precision, several backward passes
NEVER_AGAIN = {
    "own_parameters", "two_inputs", "weight_norm", "resnet_instance_norm", "attention_cross",
    "attention_other_width", "lstm", "lstm_square", "lstm_time_first", "lstm_deep", "tagger_flat",
    "tagger_flat_time_first", "embedding", "embedding_bag_mean", "embedding_bag_max", "embedding_bag_offsets",
    "bert", "bert_own_loss", "own_loss_module", "accumulation", "accumulation_batch_norm",
    "accumulation_uneven", "autocast", "closure_sgd", "closure_lbfgs", "one_sample",
}  # fmt: skip
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


@pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
@pytest.mark.parametrize(
    "case",
    [case for case in CASES.values() if case.wrap is None],
    ids=[name for name, case in CASES.items() if case.wrap is None],
)
def test_steps_that_are_made_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches of a case come back until its steps are written down, where they can be; numbers stay the same."""
    found: list[History] = []
    again: list[int] = []
    observe = Taped.observe

    def observed(tape: Taped, given: Given) -> Observation:
        again.append(1)
        return observe(tape, given)

    monkeypatch.setattr(Taped, "observe", observed)
    for replay in ("0", "1"):
        monkeypatch.setenv("COCKPIT_REPLAY", replay)
        long = replace(case, dtype=torch.float32, batches=lambda: 4 * case.batches())
        try:
            found.append(watched_run(long, [*preset("economy"), *FURTHER], run=False).history)
        except CockpitError:
            assert case.may_refuse
            return
    assert bool(again) is (case.name not in NEVER_AGAIN)
    plain, made = ({(r.step, r.name): r for r in history if r.name != "Time"} for history in found)
    assert made.keys() == plain.keys()
    for key, record in plain.items():
        assert made[key].reason == record.reason, key
        if isinstance(record.value, float | dict):
            assert made[key].value == pytest.approx(record.value, rel=1e-3, abs=1e-6, nan_ok=True), key
        elif record.value is not None:
            assert abs(made[key].value.counts - record.value.counts).sum() <= 4, key


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
