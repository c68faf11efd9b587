from __future__ import annotations

import numpy as np
import pytest
import torch

from cockpit.optimizers.each import Each, sqrt, where


def test_numbers_among_themselves_are_float64() -> None:
    one, two = Each([0.9, 0.99]), Each([0.1, 0.2])
    for found, expected in [
        (1 - one, [1 - 0.9, 1 - 0.99]),
        (one * two + 1, [0.9 * 0.1 + 1, 0.99 * 0.2 + 1]),
        (2 / two - one, [2 / 0.1 - 0.9, 2 / 0.2 - 0.99]),
        (one**700, [0.9**700, 0.99**700]),
        (sqrt(two), [np.sqrt(0.1), np.sqrt(0.2)]),
        (where(one >= 0.95, two, 0.0), [0.0, 0.2]),
        (where((7 % Each([2, 7])).equals(0), one, two), [0.1, 0.99]),
    ]:
        assert found.values.tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 2)])
def test_a_tensor_meets_a_column_of_its_type(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    each, tensor = Each([1 / 3, 1 / 7, 3.0]), torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    column = torch.tensor([1 / 3, 1 / 7, 3.0], dtype=dtype).view(3, *[1] * (len(shape) - 1))
    for found, expected in [
        (each * tensor, column * tensor),
        (tensor * each, tensor * column),
        (each - tensor, column - tensor),
        (tensor - each, tensor - column),
        (each / tensor, column / tensor),
        (tensor / each, tensor / column),
        (tensor + each, tensor + column),
        (torch.maximum(tensor, each), torch.maximum(tensor, column)),  # type: ignore[call-overload]
        (where(each >= 0.2, tensor, -tensor), torch.where(column >= 0.2, tensor, -tensor)),
    ]:
        assert found.dtype == dtype
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_number_for_all(dtype: torch.dtype) -> None:
    tensor = torch.rand(2, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    one, many = Each([1 / 3]), Each([1 / 3, 1 / 3])
    for found, expected in [(one * tensor, many * tensor), (1 - one - tensor, 1 - many - tensor)]:
        assert found.dtype == dtype
        assert torch.equal(found, expected)
    assert where(one >= 1, tensor, -tensor).equal(-tensor)


def test_what_has_no_value_is_nan_in_silence() -> None:
    assert np.isnan(sqrt(Each([-1.0])).values).all()
    assert np.isinf((1 / Each([0.0])).values).all()
