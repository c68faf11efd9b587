"""Squared lengths, in double precision: exact to rounding of the result, without a square of every element in memory.

On a CPU a running sum of single precision loses four digits over millions of terms: rows of a few thousand are summed
in single precision, the rows in double. A GPU sums in a tree. Short vectors are asked for together.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

ROW = 8192
AT_ONCE = 2**25  # bytes of differences
HALF = (torch.float16, torch.bfloat16)


def square_rows(matrix: Tensor) -> Tensor:
    """||v_n||^2 of each row, [N]."""
    if matrix.dtype in HALF:
        matrix = matrix.float()
    if sums_well(matrix, matrix.shape[1]):
        norms: Tensor = torch.linalg.vector_norm(matrix, dim=1)
        return norms.double().square()
    body = matrix.shape[1] // ROW * ROW
    rows = torch.linalg.vector_norm(matrix[:, :body].reshape(len(matrix), -1, ROW), dim=2)
    rest = torch.linalg.vector_norm(matrix[:, body:], dim=1)
    return torch.cat([rows, rest[:, None]], 1).double().square().sum(1)


def square_norm(vector: Tensor) -> Tensor:
    """||v||^2, on the vector's device."""
    vector = _plain(vector)
    if vector.dtype not in HALF and sums_well(vector, vector.numel()):
        norm: Tensor = torch.linalg.vector_norm(vector)
        return norm.double().square()
    return square_rows(vector.reshape(1, -1))[0]


def square_norms(vectors: Sequence[Tensor]) -> Tensor:
    """||v||^2 of each vector, [P], on the device of the first."""
    plain = [_plain(vector) for vector in vectors]
    alone = {k: square_norm(v) for k, v in enumerate(plain) if v.dtype in HALF or not sums_well(v, v.numel())}
    together = [k for k in range(len(plain)) if k not in alone]
    found = dict(zip(together, torch._foreach_norm([plain[k] for k in together]), strict=True)) if together else {}
    squares = torch.stack([found[k].to(plain[0].device) for k in together]).double().square() if together else None
    if squares is not None and not alone:
        return squares
    known = alone | (dict(zip(together, squares, strict=True)) if squares is not None else {})
    return torch.stack([known[k].to(plain[0].device) for k in range(len(plain))])


def square_distances(ends: Sequence[Tensor], starts: Sequence[Tensor]) -> Tensor:
    """||v - w||^2 of each pair, [P], on the device of the first; a few are subtracted at once."""
    found = []
    for some in _handfuls(ends):
        here = [ends[k] for k in some]
        there = [starts[k].to(ends[k].device, non_blocking=True) for k in some]
        found.append(square_norms(torch._foreach_sub(here, there)).to(ends[0].device))
    return torch.cat(found)


def _handfuls(vectors: Sequence[Tensor]) -> Iterator[list[int]]:
    """Neighbours that take at most ``AT_ONCE`` bytes together, or one."""
    some, size = list[int](), 0
    for k, vector in enumerate(vectors):
        if some and size + vector.nbytes > AT_ONCE:
            yield some
            some, size = [], 0
        some.append(k)
        size += vector.nbytes
    if some:
        yield some


def _plain(vector: Tensor) -> Tensor:
    vector = vector.to_dense() if vector.is_sparse else vector
    return vector.detach() if vector.requires_grad else vector


def sums_well(tensor: Tensor, terms: int) -> bool:
    """Whether a sum of so many terms may be left to torch."""
    return tensor.is_cuda or terms <= ROW or tensor.dtype == torch.float64
