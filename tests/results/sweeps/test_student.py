"""Student's t against closed forms, a sum over its density, and tables."""

from __future__ import annotations

import math

import pytest

from cockpit.results.sweeps.student import incomplete_beta, quantile, two_sided


def slow(t: float, freedom: int, steps: int = 200_000) -> float:
    """Twice the area beyond t, by Simpson's rule over the density from 0 to t."""
    norm = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)

    def density(x: float) -> float:
        return norm * (1 + x * x / freedom) ** (-(freedom + 1) / 2)

    width = t / steps
    inner = sum((4 if step % 2 else 2) * density(step * width) for step in range(1, steps))
    return 1 - 2 * width / 3 * (density(0) + inner + density(t))


@pytest.mark.parametrize("t", [0.0, 1e-8, 0.3, 1.0, 2.5, 40.0, 1e5])
def test_closed_forms(t: float) -> None:
    assert two_sided(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), rel=1e-9, abs=1e-15)
    assert two_sided(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-6, abs=1e-15)
    assert two_sided(-t, 2) == two_sided(t, 2)


@pytest.mark.parametrize(("t", "freedom"), [(0.5, 3), (2.0, 8), (4.5, 9), (1.1, 30)])
def test_the_area_under_its_density(t: float, freedom: int) -> None:
    assert two_sided(t, freedom) == pytest.approx(slow(t, freedom, 20_000), abs=1e-12)


@pytest.mark.parametrize(
    ("freedom", "table"), [(1, 318.309), (2, 22.327), (4, 7.173), (8, 4.501), (9, 4.297), (30, 3.385), (120, 3.160)]
)
def test_the_printed_table(freedom: int, table: float) -> None:
    """The upper 0.1% points of any book of tables."""
    assert quantile(0.998, freedom) == pytest.approx(table, abs=6e-4)
    assert two_sided(quantile(0.998, freedom), freedom) == pytest.approx(0.002, rel=1e-9)


def test_ends() -> None:
    assert two_sided(0.0, 9) == 1.0
    assert two_sided(math.inf, 9) == 0.0
    assert 0 < two_sided(1e4, 9) < 1e-30
    assert (incomplete_beta(0.0, 2, 3), incomplete_beta(1.0, 2, 3)) == (0.0, 1.0)
    assert incomplete_beta(0.4, 2, 3) == pytest.approx(0.5248)  # 1 - sum of a binomial
    assert incomplete_beta(0.9, 2, 3) == pytest.approx(1 - incomplete_beta(0.1, 3, 2))
