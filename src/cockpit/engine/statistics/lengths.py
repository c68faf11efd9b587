"""Squared lengths, in double precision: exact to rounding of the result, without a square of every element in memory.

One running sum of single precision loses four digits over millions of terms; rows of a few thousand are summed in
single precision, the rows in double.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

ROW = 8192


def square_rows(matrix: Tensor) -> Tensor:
    """||v_n||^2 of each row, [N]."""
    if matrix.dtype in (torch.float16, torch.bfloat16):
        matrix = matrix.float()
    body = matrix.shape[1] // ROW * ROW
    parts = [torch.linalg.vector_norm(matrix[:, body:], dim=1)[:, None]]
    if body:
        parts.append(torch.linalg.vector_norm(matrix[:, :body].reshape(len(matrix), -1, ROW), dim=2))
    return torch.cat(parts, 1).double().square().sum(1)


def square_norm(vector: Tensor) -> Tensor:
    """||v||^2, on the vector's device."""
    return square_rows((vector.to_dense() if vector.is_sparse else vector).detach().reshape(1, -1))[0]


def square_norms(vectors: Sequence[Tensor]) -> Tensor:
    """||v||^2 of each vector, [P]."""
    return torch.stack([square_norm(vector).to(vectors[0].device) for vector in vectors])


def square_distances(ends: Sequence[Tensor], starts: Sequence[Tensor]) -> Tensor:
    """||v - w||^2 of each pair, [P]."""
    pairs = zip(ends, starts, strict=True)
    return torch.stack([square_norm(v - w.to(v.device)).to(ends[0].device) for v, w in pairs])
