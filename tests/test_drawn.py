"""Programs that nobody thought of, drawn from a number, against the slow reference."""

from __future__ import annotations

import pytest
from tests.cases.drawn import drawn
from tests.test_table import check, in_single

SEEDS = range(16)


@pytest.mark.parametrize("seed", SEEDS)
def test_right_or_undefined_with_the_reason(seed: int) -> None:
    case = drawn(seed)
    check(case, case, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_in_single_precision(seed: int) -> None:
    case = drawn(seed)
    check(in_single(case), case, 1e-5)
