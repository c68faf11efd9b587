"""Lengths and inner products of parameter-sized vectors: exact to rounding of the result, and quick.

Single-precision reductions of millions of terms lose four digits when one running sum takes them all; rows of a few
thousand are summed in single precision, the rows in double.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

ROW = 8192


def square_norm(vector: Tensor) -> Tensor:
    """||v||^2 in double precision, on the vector's device."""
    flat = vector.detach().reshape(-1)
    if flat.dtype in (torch.float16, torch.bfloat16):
        flat = flat.float()
    body = flat.numel() // ROW * ROW
    if body <= ROW:
        return torch.linalg.vector_norm(flat).double().square()
    found = torch.linalg.vector_norm(flat[:body].view(-1, ROW), dim=1).double().square().sum()
    return found + torch.linalg.vector_norm(flat[body:]).double().square() if body < flat.numel() else found


def square_norms(vectors: Sequence[Tensor]) -> Tensor:
    """||v||^2 of each vector, [P], in double precision."""
    first = vectors[0]
    alike = all(v.dtype is first.dtype and v.device == first.device for v in vectors)
    if not alike or first.dtype in (torch.float16, torch.bfloat16):
        return torch.stack([square_norm(vector).to(first.device) for vector in vectors])
    if first.is_cuda or all(v.numel() <= ROW for v in vectors):
        return torch.stack(torch._foreach_norm(list(vectors))).double().square()
    return torch.stack([square_norm(vector) for vector in vectors])


def inner(one: Tensor, other: Tensor) -> float:
    """<v, w>, summed in double precision over rows."""
    a, b = one.detach().reshape(-1), other.detach().reshape(-1)
    if a.numel() <= 2 * ROW:
        return float(a @ b)
    return sum(float(x @ y) for x, y in zip(a.split(2 * ROW), b.split(2 * ROW), strict=True))
