"""Lengths and inner products of parameter-sized vectors: exact to rounding of the result, and quick.

Single-precision reductions of millions of terms lose four digits when one running sum takes them all; rows of a few
thousand are summed in single precision, the rows in double.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

ROW = 8192
BLOCK = 16 * ROW  # stays in a processor's cache


def square_norm(vector: Tensor) -> Tensor:
    """||v||^2 in double precision, on the vector's device."""
    flat = vector.detach().reshape(-1)
    if flat.dtype in (torch.float16, torch.bfloat16):
        flat = flat.float()
    body = flat.numel() // ROW * ROW
    if body <= ROW:
        return torch.linalg.vector_norm(flat).double().square()  # type: ignore[no-any-return]
    found: Tensor = torch.linalg.vector_norm(flat[:body].view(-1, ROW), dim=1).double().square().sum()
    return found + torch.linalg.vector_norm(flat[body:]).double().square() if body < flat.numel() else found


def square_norms(vectors: Sequence[Tensor]) -> Tensor:
    """||v||^2 of each vector, [P], in double precision."""
    first = vectors[0]
    alike = all(v.dtype is first.dtype and v.device == first.device for v in vectors)
    if not alike or first.dtype in (torch.float16, torch.bfloat16):
        return torch.stack([square_norm(vector).to(first.device) for vector in vectors])
    if first.is_cuda or all(v.numel() <= ROW for v in vectors):
        return torch.stack(torch._foreach_norm(list(vectors))).double().square()
    short = [vector for vector in vectors if vector.numel() <= ROW]
    found = iter(torch._foreach_norm(short) if short else ())
    return torch.stack([next(found).double().square() if v.numel() <= ROW else square_norm(v) for v in vectors])


def square_distances(ends: Sequence[Tensor], starts: Sequence[Tensor]) -> Tensor:
    """||v - w||^2 of each pair, [P]; without a difference of full size, which would need fresh memory."""
    if ends[0].is_cuda and all(v.is_cuda for v in starts):
        return square_norms(torch._foreach_sub(list(ends), list(starts)))
    return torch.stack(
        [
            _square_distance(end, start.to(end.device)).to(ends[0].device)
            for end, start in zip(ends, starts, strict=True)
        ]
    )


def _square_distance(end: Tensor, start: Tensor) -> Tensor:
    if end.numel() <= BLOCK or end.device.type != "cpu":
        return square_norm(end - start)
    total, room = torch.zeros((), dtype=torch.float64), end.new_empty(BLOCK)
    pieces = zip(end.reshape(-1).split(BLOCK), start.reshape(-1).split(BLOCK), strict=True)
    for one, other in pieces:
        total += square_norm(torch.sub(one, other, out=room[: len(one)]))
    return total


def inner(one: Tensor, other: Tensor) -> float:
    """<v, w>, summed in double precision over rows."""
    a, b = one.detach().reshape(-1), other.detach().reshape(-1)
    if a.numel() <= 8 * ROW:
        return float(a @ b)
    return sum(float(x @ y) for x, y in zip(a.split(8 * ROW), b.split(8 * ROW), strict=True))
