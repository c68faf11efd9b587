"""Tensors with a row for each run, computed so that the bits of a row do not depend on the others.

Sums are folded by hand, because the order in which torch adds depends on shapes. A product with a matrix is one product
of a row and a matrix for each row: a larger one may be cut in pieces that depend on the number of rows. Rows begin at
multiples of 64 bytes, as what is allocated does.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

LINE = 64  # bytes
_TRIED = 37  # rows of a trial


def made(rows: int, width: int, dtype: torch.dtype) -> Tensor:
    """Zeros, [rows, width or a little more]."""
    line = LINE // dtype.itemsize
    return torch.zeros(rows, -(-width // line) * line, dtype=dtype)


def stacked(parts: list[Tensor]) -> Tensor:
    """Vectors as rows."""
    rows = made(len(parts), len(parts[0]), parts[0].dtype)
    for row, part in zip(rows, parts, strict=True):
        row[: len(part)] = part
    return rows


def sums(values: Tensor) -> Tensor:
    """The sum of each row: halves are added until one number is left."""
    width = 1 << (values.shape[1] - 1).bit_length()
    if width > values.shape[1]:
        values = torch.cat([values, values.new_zeros(len(values), width - values.shape[1])], 1)
    while width > 1:
        width //= 2
        values = values[:, :width] + values[:, width:]
    return values[:, 0]


class Products:
    """Rows times matrices: so many rows with the first one, so many with the second, and so on."""

    def __init__(self, matrices: Sequence[Tensor], counts: Sequence[int]) -> None:
        self._width = len(matrices[0])
        if not _steady(matrices[0].dtype, torch.get_num_threads()):  # then each row in a call of its own
            matrices = [matrix for matrix, count in zip(matrices, counts, strict=True) for _ in range(count)]
            counts = [1] * len(matrices)
        self._counts = list(counts)
        self._matrices = [matrix.expand(count, -1, -1) for matrix, count in zip(matrices, counts, strict=True)]

    def __call__(self, rows: Tensor) -> Tensor:
        """The products, [rows, columns]."""
        found = rows.new_empty(len(rows), 1, self._width)
        parts = rows[:, None, : self._width].split(self._counts)
        for part, matrix, place in zip(parts, self._matrices, found.split(self._counts), strict=True):
            _multiply(part, matrix, place)
        return found[:, 0]


def _multiply(rows: Tensor, matrix: Tensor, out: Tensor) -> None:
    torch.bmm(rows, matrix, out=out)


@lru_cache(16)
def _steady(dtype: torch.dtype, threads: int) -> bool:
    """Whether this machine computes the same for a row in one call for many as in a call of its own: it is tried."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(100, 100, generator=generator, dtype=torch.float64).to(dtype)
    rows = stacked(list(torch.randn(_TRIED, 100, generator=generator, dtype=torch.float64).to(dtype)))

    def products(some: Tensor) -> Tensor:
        found = torch.empty(len(some), 1, len(matrix), dtype=dtype)
        _multiply(some[:, None, : len(matrix)], matrix.expand(len(some), -1, -1), found)
        return found

    alone = torch.cat([products(row.clone()) for row in rows.split(1)])
    parts = (rows, rows[3:], rows[:8], rows[5:12])
    expected = (alone, alone[3:], alone[:8], alone[5:12])
    return all(torch.equal(products(one), other) for one, other in zip(parts, expected, strict=True))
