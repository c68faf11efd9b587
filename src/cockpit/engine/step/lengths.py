"""Squared lengths of parameter-sized vectors, in double precision: exact to rounding of the result."""

from collections.abc import Sequence

import torch
from torch import Tensor

ROW = 8192  # numbers that one running sum of single precision takes


def square_norm(vector: Tensor) -> Tensor:
    """||v||^2 as a double, on the vector's device."""
    flat = vector.detach().to_dense().reshape(-1) if vector.is_sparse else vector.detach().reshape(-1)
    if flat.dtype is torch.float64:
        return flat.dot(flat)
    flat = flat if flat.dtype is torch.float32 else flat.float()
    body = flat.numel() // ROW * ROW
    lengths: list[Tensor] = [torch.linalg.vector_norm(flat[body:])[None]]
    if body:
        lengths.append(torch.linalg.vector_norm(flat[:body].view(-1, ROW), dim=1))
    return torch.cat(lengths).double().square().sum()


def square_norms(vectors: Sequence[Tensor]) -> Tensor:
    """||v||^2 of each vector, [P]."""
    return torch.stack([square_norm(vector).to(vectors[0].device) for vector in vectors])


def square_distances(ends: Sequence[Tensor], starts: Sequence[Tensor]) -> Tensor:
    """||v - w||^2 of each pair, [P]."""
    pairs = zip(ends, starts, strict=True)
    return torch.stack([square_norm(v - w.to(v.device)).to(ends[0].device) for v, w in pairs])
