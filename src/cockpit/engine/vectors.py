"""Lengths and inner products of parameter-sized vectors: exact to rounding of the result, and quick.

Single-precision reductions of millions of terms lose four digits when one running sum takes them all; rows of a few
thousand are summed in single precision, the rows in double.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine import native

ROW = 8192
BLOCK = 16 * ROW  # stays in a processor's cache
PLAIN = frozenset({torch.float32, torch.float64})

Flat = NDArray[np.floating[Any]]


def square_norm(vector: Tensor) -> Tensor:
    """||v||^2 in double precision, on the vector's device."""
    if native.usable(vector):
        return native.vector_sums([vector])[0]
    if _plain(vector):
        flat = _flat(vector)
        return torch.tensor(_product(flat, flat), dtype=torch.float64, device="cpu")
    flat_tensor = vector.detach().reshape(-1)
    if flat_tensor.dtype in (torch.float16, torch.bfloat16):
        flat_tensor = flat_tensor.float()
    body = flat_tensor.numel() // ROW * ROW
    if body <= ROW:
        return torch.linalg.vector_norm(flat_tensor).double().square()  # type: ignore[no-any-return]
    found: Tensor = torch.linalg.vector_norm(flat_tensor[:body].view(-1, ROW), dim=1).double().square().sum()
    rest = flat_tensor[body:]
    return found + torch.linalg.vector_norm(rest).double().square() if len(rest) else found


def square_norms(vectors: Sequence[Tensor]) -> Tensor:
    """||v||^2 of each vector, [P], in double precision."""
    first = vectors[0]
    if native.usable(*vectors):
        return native.vector_sums(vectors)
    if all(_plain(v) for v in vectors):
        flats = [_flat(v) for v in vectors]
        return torch.tensor([_product(flat, flat) for flat in flats], dtype=torch.float64, device="cpu")
    if first.is_cuda and first.dtype in PLAIN and all(v.is_cuda and v.dtype is first.dtype for v in vectors):
        return torch.stack(torch._foreach_norm(list(vectors))).double().square()
    return torch.stack([square_norm(vector).to(first.device) for vector in vectors])


def square_rows(matrix: Tensor) -> Tensor:
    """||v_n||^2 of each row, [N], in the precision of the rows."""
    if native.usable(matrix):
        return native.row_products(matrix, matrix)
    if not _plain(matrix) or matrix.shape[1] > ROW:
        return matrix.square().sum(1)  # added in pairs: more accurate than a norm
    rows = matrix.detach().numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        return torch.from_numpy(np.matmul(rows[:, None, :], rows[:, :, None]).reshape(-1))


def square_distances(ends: Sequence[Tensor], starts: Sequence[Tensor]) -> Tensor:
    """||v - w||^2 of each pair, [P]; on a CPU without a difference of full size, which would need fresh memory."""
    if ends[0].is_cuda and all(v.is_cuda for v in starts):
        return square_norms(torch._foreach_sub(list(ends), list(starts)))
    if native.usable(*ends, *starts):
        return native.vector_sums(ends, starts, apart=True)
    pairs = [(end, start.to(end.device)) for end, start in zip(ends, starts, strict=True)]
    if all(_plain(v) for pair in pairs for v in pair):
        found = [_square_distance(_flat(v), _flat(w)) for v, w in pairs]
        return torch.tensor(found, dtype=torch.float64, device="cpu")
    return torch.stack([square_norm(v - w).to(ends[0].device) for v, w in pairs])


def inner(one: Tensor, other: Tensor) -> float:
    """<v, w>, summed in double precision over rows."""
    if native.usable(one, other):
        return float(native.vector_sums([one], [other])[0])
    if _plain(one) and _plain(other):
        flat = _flat(one)
        return _product(flat, flat if other is one else _flat(other))
    a, b = one.detach().reshape(-1), other.detach().reshape(-1)
    return sum(float(x @ y) for x, y in zip(a.split(8 * ROW), b.split(8 * ROW), strict=True))


def _plain(vector: Tensor) -> bool:
    """Whether numpy can read it."""
    return vector.dtype in PLAIN and vector.device.type == "cpu" and vector.layout is torch.strided


def _flat(vector: Tensor) -> Flat:
    found: Flat = vector.detach().numpy().reshape(-1)
    return found


def _product(one: Flat, other: Flat) -> float:
    """<v, w>; the processor's own dot product is several times as fast as a reduction, and no threads are woken."""
    body = one.size // ROW * ROW
    with np.errstate(over="ignore", invalid="ignore"):
        rest = float(np.dot(one[body:], other[body:]))
        if not body:
            return rest
        rows = np.matmul(one[:body].reshape(-1, 1, ROW), other[:body].reshape(-1, ROW, 1))
        return rest + float(rows.sum(dtype=np.float64))


def _square_distance(end: Flat, start: Flat) -> float:
    total, room = 0.0, np.empty(min(BLOCK, end.size), end.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, end.size, BLOCK):
            some = end[begin : begin + BLOCK]
            apart = np.subtract(some, start[begin : begin + BLOCK], out=room[: some.size])
            total += _product(apart, apart)
    return total


def scaled(x: Tensor, factor: float) -> Tensor:
    """x * factor."""
    return native.scaled(x, factor) if x.numel() <= native.LARGE and native.usable(x) else x * factor


def stack(rows: list[Tensor]) -> Tensor:
    """Rows one below the other."""
    kind = rows[0].dtype
    here = all(row.device.type == "cpu" and row.dtype is kind for row in rows)
    return native.stack(rows) if here and native.usable() else torch.stack(rows)
