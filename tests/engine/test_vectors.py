"""Lengths, distances and inner products against double precision; directions along the gradient."""

from __future__ import annotations

import pytest
import torch

from cockpit.engine.motion import Motion
from cockpit.engine.vectors import inner, square_distances, square_norm, square_norms, square_rows

SIZES = [1, 7, 8192, 8193, 300_001]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lengths_are_right_to_rounding_of_the_result(size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(size)
    v, w = (torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) * 1e-3 for _ in range(2))
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    expected = float(v.double().square().sum())
    assert float(square_norm(v)) == pytest.approx(expected, rel=tolerance)
    assert square_norms([v, w, v[:1]]).tolist() == pytest.approx(
        [expected, float(w.double().square().sum()), float(v[0].double() ** 2)], rel=tolerance
    )
    apart = float((v.double() - w.double()).square().sum())
    assert square_distances([v, w], [w, w]).tolist() == pytest.approx([apart, 0.0], rel=10 * tolerance)
    expected = float(v.double() @ w.double())
    assert inner(v, w) == pytest.approx(expected, rel=1e-3 if dtype == torch.float32 else 1e-9, abs=1e-12)


@pytest.mark.parametrize("width", [0, 1, 500, 8192, 8193])
def test_lengths_of_rows(width: int) -> None:
    rows = torch.randn(4, width, generator=torch.Generator().manual_seed(width))
    expected = rows.double().square().sum(1)
    for given in (rows, rows.mT.contiguous().mT):
        torch.testing.assert_close(square_rows(given).double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("odd", [float("inf"), float("nan"), 1e30])
def test_numbers_that_are_not_finite_need_no_warning(odd: float) -> None:
    v, zero = torch.ones(20_000), torch.zeros(20_000)
    v[7] = odd
    found = [square_norm(v), square_distances([v], [zero])[0], square_rows(v[None, :100])[0]]
    assert not any(bool(torch.isfinite(number)) for number in found)


def test_half_precision_is_widened() -> None:
    v = torch.full((10_000,), 300.0, dtype=torch.bfloat16)
    assert float(square_norm(v)) == pytest.approx(float(v.double().square().sum()), rel=1e-6)
    assert square_norms([v, v]).tolist() == pytest.approx([9e8, 9e8], rel=1e-2)


def followed(step: torch.Tensor, theta: torch.Tensor, g: torch.Tensor) -> float | None:
    """The number c with step = c * g, as far as a motion tells."""
    motion, parameters = Motion(), {"w": theta.clone()}
    motion.mark(parameters)
    parameters["w"].add_(step)
    update = motion.take(parameters, {"w": g})
    assert torch.equal(update["w"], parameters["w"] - theta)
    lengths = {"w": float(motion.lengths())}
    assert lengths["w"] == pytest.approx(float(square_norm(update["w"])), rel=1e-7)
    found = motion.along({"w": g}, lengths, {"w": float(square_norm(g))}).get("w")
    assert torch.equal(motion.vector("w"), update["w"])
    return found


@pytest.mark.parametrize("size", [50, 200_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("loops")
def test_a_step_along_the_gradient_is_recognised(size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    theta, g = (torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))
    assert followed(-1e-3 * g, theta, g) == pytest.approx(-1e-3, rel=1e-3 if dtype == torch.float32 else 1e-9)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("off", ["decay", "elements", "sign"])
def test_any_other_step_is_not(off: str) -> None:
    generator = torch.Generator().manual_seed(0)
    theta, g = (torch.randn(200_000, generator=generator) for _ in range(2))
    step = {
        "decay": -1e-3 * (g + 0.01 * theta),
        "elements": -1e-3 * torch.where(torch.arange(len(g)) < 2000, 1.01, 1.0) * g,
        "sign": -1e-3 * g.sign(),
    }[off]
    assert followed(step, theta, g) is None


def test_what_overflows_is_infinite_and_nobody_is_warned() -> None:
    huge = torch.full((5,), 1e200, dtype=torch.float64)
    assert inner(huge, huge) == float("inf")
    assert inner(huge.repeat(1000), huge.repeat(1000)) == float("inf")


@pytest.mark.parametrize("size", [50, 200_000])
@pytest.mark.usefixtures("loops")
def test_a_steady_motion_is_written_down_once(size: int) -> None:
    """The gradient is another one at each step, in one step there is none, and lengths of earlier steps stay."""
    generator = torch.Generator().manual_seed(0)
    parameters = {name: torch.randn(size, generator=generator) for name in ("w", "v")}
    gradient = {name: torch.empty(0) for name in parameters}
    steady, seen = Motion(steady=True), []
    for step in range(6):
        for pointed in gradient.values():
            pointed.set_(torch.randn(size, generator=generator))
        fresh, beside = Motion(), gradient if step != 3 else None
        for motion in (steady, fresh):
            motion.mark(parameters)
        for name, theta in parameters.items():
            theta.add_(gradient[name], alpha=-0.1 * step - 0.1)
        found, expected = (motion.take(parameters, beside, {"v"}) for motion in (steady, fresh))
        assert list(found) == list(expected)
        assert torch.equal(found["w"], expected["w"])
        assert torch.equal(steady.vector("v"), fresh.vector("v"))
        seen.append((steady.lengths(), fresh.lengths()))
        lengths = dict(zip(steady.names, steady.lengths().tolist(), strict=True))
        squares = {name: float(square_norm(g)) for name, g in gradient.items()}
        told = [motion.along(gradient, lengths, squares) for motion in (steady, fresh)]
        assert told[0] == told[1]
        assert told[0].keys() == parameters.keys()
    assert all(torch.equal(one, other) for one, other in seen)
