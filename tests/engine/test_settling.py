"""A vector made orthogonal to others, by kernels and by torch, against double precision."""

from __future__ import annotations

import pytest
import torch
from tests.engine.triton_here import DEVICE, its_own_words, needs_kernels
from torch import Tensor

from cockpit.engine.settling import settle

pytestmark = its_own_words


def orthonormal(count: int, size: int, room: int) -> Tensor:
    """Rows, and zeros behind them."""
    generator = torch.Generator().manual_seed(count)
    rows = torch.zeros(room, size, dtype=torch.float64)
    rows[:count] = torch.linalg.qr(torch.randn(size, count, generator=generator, dtype=torch.float64))[0].mT
    return rows


@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=needs_kernels)])
@pytest.mark.parametrize(("count", "size", "room"), [(1, 1, 2), (1, 7, 5), (3, 2000, 9), (8, 1537, 9), (12, 513, 13)])
def test_settle(count: int, size: int, room: int, dtype: torch.dtype) -> None:
    exact = orthonormal(count, size, room)
    generator = torch.Generator().manual_seed(0)
    along = 100 * torch.randn(count, generator=generator, dtype=torch.float64)
    rest = torch.randn(size, generator=generator, dtype=torch.float64)
    given = along @ exact[:count] + rest
    rows, image = exact.clone().to(DEVICE, dtype), given.clone().to(DEVICE, dtype)
    newest, vector = torch.tensor([count - 1], device=DEVICE), torch.empty_like(image)
    numbers = settle(rows, image, newest, vector).cpu().double()
    parts = exact @ given
    left = given - parts @ exact
    assert newest.item() == count
    torch.testing.assert_close(numbers[:-1], parts, rtol=1e-5, atol=1e-4)
    assert numbers.shape == (room + 1,)
    if size > count:
        assert float(numbers[-1]) == pytest.approx(float(left.norm()), rel=1e-5)
        torch.testing.assert_close(vector.cpu().double(), left / left.norm(), rtol=0, atol=2e-5)
        assert torch.equal(rows[count], vector)
        assert float((rows[:count].double() @ vector.double()).abs().max()) < 1e-6  # orthogonal, not only nearly so
    torch.testing.assert_close(rows[:count].cpu(), exact[:count].to(dtype), rtol=0, atol=0)
    assert float(rows[count + 1 :].abs().sum()) == 0


@needs_kernels
def test_what_is_not_finite_stays_so() -> None:
    rows = orthonormal(2, 40, 4).to(DEVICE, torch.float32)
    image = torch.full((40,), float("inf"), device=DEVICE)
    numbers = settle(rows, image, torch.tensor([1], device=DEVICE), torch.empty_like(image))
    assert not bool(numbers[-1] < float("inf"))
