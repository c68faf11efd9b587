"""Every quantity from its definition. None: undefined.

`g_n` are individual gradients by parameter name, each [B, *shape]. Where a formula says g, it is
the mean of g_n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .gradients import Named

TINY = 1e-30  # floor of a variance in Alpha's fit


def matrix(g_n: Named) -> Tensor:
    """All parameters side by side, [B, D]."""
    return torch.cat([g.reshape(len(g), -1) for g in g_n.values()], 1)


def defined(value: float | Tensor) -> float | None:
    """A number, or None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def norms(tensors: Named) -> dict[str, float]:
    """Euclidean norm of each parameter's tensor: GradNorm, Distance, UpdateSize."""
    return {name: float(t.norm()) for name, t in tensors.items()}


def difference(a: Named, b: Named) -> Named:
    """a - b, name by name."""
    return {name: a[name] - b[name] for name in a}


def parameters(theta: Named) -> dict[str, dict[str, float]]:
    """norm, mean, std (over the elements, 1/D), min, max of each parameter."""
    return {
        name: {
            "norm": float(t.norm()),
            "mean": float(t.mean()),
            "std": float(t.std(correction=0)),
            "min": float(t.min()),
            "max": float(t.max()),
        }
        for name, t in theta.items()
    }


def _ratios(g_n: Named) -> tuple[int, Tensor, Tensor] | None:
    """B, ||g_n||^2 / ||g||^2 and <g_n, g>^2 / ||g||^4, unless B = 1 or g = 0."""
    rows = matrix(g_n)
    g = rows.mean(0)
    if len(rows) == 1 or g.norm() == 0:
        return None
    return len(rows), rows.square().sum(1) / g.dot(g), (rows @ g).square() / g.dot(g) ** 2


def _root(value: Tensor) -> float | None:
    return defined(value.clamp(min=0).sqrt())


def norm_test(g_n: Named) -> float | None:
    """sqrt( [ sum ||g_n||^2 / ||g||^2 - B ] / (B (B-1)) )."""
    if (found := _ratios(g_n)) is None:
        return None
    B, norm, _ = found
    return _root((norm.sum() - B) / (B * (B - 1)))


def inner_test(g_n: Named) -> float | None:
    """sqrt( [ sum <g_n, g>^2 / ||g||^4 - B ] / (B (B-1)) )."""
    if (found := _ratios(g_n)) is None:
        return None
    B, _, inner = found
    return _root((inner.sum() - B) / (B * (B - 1)))


def ortho_test(g_n: Named) -> float | None:
    """sqrt( sum( ||g_n||^2 / ||g||^2 - <g_n, g>^2 / ||g||^4 ) / (B (B-1)) )."""
    if (found := _ratios(g_n)) is None:
        return None
    B, norm, inner = found
    return _root((norm - inner).sum() / (B * (B - 1)))


def cabs(g_n: Named, lr: Mapping[str, float], loss: float) -> float | None:
    """Sum over parameters of lr * (1/B) sum_n ||g_n - g||^2 / L; undefined for L <= 0.

    L is the number that the user backpropagates, a penalty included.
    """
    if not loss > 0:
        return None
    total = 0.0
    for name, g in g_n.items():
        total += lr.get(name, 0.0) * float((g - g.mean(0)).square().sum()) / len(g)
    return defined(total / loss)


def _signal_to_noise(g_n: Named, correction: int, epsilon: float) -> Tensor:
    """g_j^2 / var_j of the elements that count: all with epsilon, else those with var_j > 0."""
    rows = matrix(g_n)
    signal, variance = rows.mean(0).square(), rows.var(0, correction=correction)
    if epsilon:
        return signal / (variance + epsilon)
    return signal[variance > 0] / variance[variance > 0]


def early_stopping(g_n: Named, epsilon: float = 0.0) -> float | None:
    """1 - (B/D') sum_j g_j^2 / var_j, var_j with 1/(B-1)."""
    B = len(matrix(g_n))
    if B == 1:
        return None
    return defined(1 - B * _signal_to_noise(g_n, 1, epsilon).mean())


def mean_gsnr(g_n: Named, epsilon: float = 0.0) -> float | None:
    """Mean of g_j^2 / var_j, var_j with 1/B."""
    if len(matrix(g_n)) == 1:
        return None
    return defined(_signal_to_noise(g_n, 0, epsilon).mean())


def noise_elements(g_n: Named) -> int:
    """Elements whose variance is nothing but rounding: they make the two above a lottery."""
    variance = matrix(g_n).var(0, correction=0)
    return int(((variance > 0) & (variance < 1e-26 * variance.max())).sum())


@dataclass(frozen=True)
class Histogram:
    """Counts of all parameters and of each; rounding decides the bin of `unsure` elements."""

    edges: tuple[np.ndarray, ...]
    counts: np.ndarray
    parts: dict[str, np.ndarray]
    unsure: int


def _distance(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How far each value is from the nearest inner edge."""
    return np.abs(values[..., None] - edges[1:-1]).min(-1)


def _unsure(*distances: np.ndarray) -> int:
    """Elements at an edge up to rounding, [B, P].

    Exact hits (the zeros of a ReLU net) are sure, unless another sample misses the edge by a hair
    in the same column: then the column is rounding noise around it.
    """
    near = np.any([d < 1e-12 for d in distances], axis=0)
    missed = np.any([(d > 0) & (d < 1e-12) for d in distances], axis=0)
    return int((near & missed.any(0)).sum())


def _columns(g: Tensor, limits: tuple[float, float]) -> np.ndarray:
    """One parameter's individual gradients, [B, P], pushed into the range."""
    return g.reshape(len(g), -1).numpy().clip(*limits)


def grad_hist_1d(g_n: Named, bins: int = 100, limits: tuple[float, float] = (-2, 2)) -> Histogram | None:
    """Counts of all elements of g_n; those outside the range count in the outermost bins."""
    if not torch.isfinite(matrix(g_n)).all():
        return None
    edges = np.linspace(*limits, bins + 1)
    parts, unsure = {}, 0
    for name, g in g_n.items():
        values = _columns(g, limits)
        parts[name] = np.histogram(values, bins, limits)[0]
        unsure += _unsure(_distance(values, edges))
    return Histogram((edges,), np.sum(list(parts.values()), axis=0), parts, unsure)


def grad_hist_2d(
    g_n: Named,
    theta: Named,
    bins: tuple[int, int] = (40, 50),
    limits: tuple[tuple[float, float], tuple[float, float]] = ((-1, 1), (-2, 2)),
) -> Histogram | None:
    """Counts of the pairs (element of g_n, its parameter), [gradient bins, parameter bins]."""
    if not torch.isfinite(matrix(g_n)).all():
        return None
    edges = tuple(np.linspace(*ends, n + 1) for ends, n in zip(limits, bins, strict=True))
    parts, unsure = {}, 0
    for name, g in g_n.items():
        x, y = _columns(g, limits[0]), _columns(theta[name].expand_as(g), limits[1])
        parts[name] = np.histogram2d(x.ravel(), y.ravel(), bins, limits)[0].astype(np.int64)
        unsure += _unsure(_distance(x, edges[0]), _distance(y, edges[1]))
    return Histogram(edges, np.sum(list(parts.values()), axis=0), parts, unsure)


def tic_diag(g_n: Named, diagonal: Named, eps: float = 1e-7) -> float | None:
    """(1/B) sum_j [sum_n g_nj^2] / (h_j + eps)."""
    total = sum(float((g.square().mean(0) / (diagonal[k] + eps)).sum()) for k, g in g_n.items())
    return defined(total)


def tic_trace(g_n: Named, diagonal: Named, eps: float = 1e-7) -> float | None:
    """(1/B) sum_n ||g_n||^2 / (tr H + eps)."""
    trace = sum(float(diagonal[name].sum()) for name in g_n)
    return defined(matrix(g_n).square().sum(1).mean() / (trace + eps))


def alpha(step: Named, losses: tuple[Tensor, Tensor], g_n: tuple[Named, Named]) -> float | None:
    """T / tau* - 1 on the parabola fitted to both ends of a step of length T; see `parabola`.

    Individual losses are B times each sample's contribution to L, so that value, slope and their
    noise all belong to the data part of L. Concave or flat: -1.
    """
    names = [name for name in g_n[0] if name in g_n[1]]
    s = torch.cat([step[name].flatten() for name in names])
    T = s.norm()
    if T == 0 or min(map(len, losses)) == 1:
        return None
    slopes = [matrix({name: g[name] for name in names}) @ s / T for g in g_n]
    w = parabola(float(T), losses, (slopes[0], slopes[1]))
    if w is None:
        return None
    if w[2] <= 0:
        return -1.0
    minimum = -w[1] / (2 * w[2])
    return defined(float(T) / minimum - 1) if minimum != 0 else None


def parabola(T: float, losses: tuple[Tensor, Tensor], slopes: tuple[Tensor, Tensor]) -> np.ndarray | None:
    """w of f(tau) = w0 + w1 tau + w2 tau^2, weighted least squares on four observations.

    Values and slopes at tau = 0 and tau = T, each the mean over its batch with the noise
    variance var(B-1) / B. Solved in u = tau / T, where the four rows have like size.
    """
    observed = [*losses, *slopes]
    means = np.array([float(o.mean()) for o in observed])
    noise = np.array([max(float(o.var(correction=1)) / len(o), TINY) for o in observed])
    if not (np.isfinite(means).all() and np.isfinite(noise).all()):
        return None
    rows = np.array([[1, 0, 0], [1, 1, 1], [0, 1 / T, 0], [0, 1 / T, 2 / T]])
    weight = 1 / np.sqrt(noise)
    v = np.linalg.lstsq(rows * weight[:, None], means * weight, rcond=None)[0]
    return v / np.array([1, T, T**2])
