"""Numbers computed from the per-sample gradients of one parameter, written once per form.

Linear layers (one position per sample) are never formed; everything else is formed a chunk of samples at a time, or
not at all where inner products of the factors are less work. On a GPU nothing here waits for the device.
Letters: N samples, T positions, O rows and I columns of a weight, D elements.
"""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from cockpit.engine import conv_loops, formed, gram, histograms, outer, projections
from cockpit.engine.wanted import Direction, Directions, Statistics, Wanted
from cockpit.engine.ways import Way
from cockpit.layers.forms import AnyForm, Convolved, Factored, Indexed, Scratch, wide, widened

__all__ = [
    "Direction",
    "Statistics",
    "Wanted",
    "Way",
    "compute",
    "mean_gradient",
    "project",
    "project_formed",
]


@torch.no_grad()
def compute(
    form: AnyForm,
    theta: Tensor,
    wanted: Wanted,
    directions: Mapping[str, Direction | Tensor],
    gradient: Tensor | None = None,
    way: Way = "auto",
    room: int = 0,
    scratch: Scratch | None = None,
) -> Statistics:
    """Compute everything wanted of one parameter in one go.

    ``gradient``: autograd's own, in the units of the mean of g_n; taken for that mean where this saves work.
    ``room``: bytes that g_n may take on a CPU, where it is formed, to be left in ``formed``, its factor included.
    ``scratch``: memory to work in there.
    """
    asked = {name: Direction(v) if isinstance(v, Tensor) else v for name, v in directions.items()}
    if isinstance(form, Factored) and form.outer and way in ("auto", "gram"):
        return outer.compute(form, theta, wanted, asked, gradient)
    if isinstance(form, Factored | Convolved) and not wanted.elements and _by_factors(form, wanted, len(asked), way):
        return _inner_products(form, wanted, asked, gradient)
    vectors = {name: projections.vector_of(direction) for name, direction in asked.items()}
    if wanted.dot_mean:
        vectors[""] = projections.mean_gradient(form) if gradient is None else gradient
    if isinstance(form, Indexed):
        found = _indexed(form, theta, wanted, vectors)
    else:
        found = formed.compute(form, theta, wanted, vectors, room, way, scratch)
    found.dot_mean = found.dots.pop("", None)
    found.of_mean = wanted.dot_mean and gradient is None
    return found


@torch.no_grad()
def project(form: AnyForm, direction: Direction) -> Tensor:
    """<g_n, v>, [N], for a direction that was not known before."""
    return projections.project(form, direction)


@torch.no_grad()
def project_formed(whole: Tensor, factor: float, vector: Tensor) -> Tensor:
    """<g_n, v>, [N], from g_n / factor as :func:`compute` left it in ``formed``."""
    return (whole @ vector.to(whole.dtype).reshape(-1)).mul_(factor)


@torch.no_grad()
def mean_gradient(form: AnyForm) -> Tensor:
    """Return mean_n g_n."""
    return projections.mean_gradient(form)


def _by_factors(form: Factored | Convolved, wanted: Wanted, vectors: int, way: Way) -> bool:
    if way != "auto":
        return way == "gram"
    if not wanted.sq_norm:
        several = vectors + wanted.dot_mean > 1  # then it is quicker to make g_n, where most of the response is zero
        return not (several and conv_loops.suits(form))
    return gram.norm_is_cheaper(form)


def _inner_products(
    form: Factored | Convolved, wanted: Wanted, directions: Directions, gradient: Tensor | None
) -> Statistics:
    """Norms from T x T inner products, dots from one product for all samples; nothing of size N x D."""
    found = Statistics(sq_norm=gram.sq_norm(form) if wanted.sq_norm else None, way="gram")
    found.dots = {name: projections.project(form, direction) for name, direction in directions.items()}
    if wanted.dot_mean:
        mean = Direction(gradient, form)
        if isinstance(form, Factored):
            found.of_mean = gradient is None or gram.mean_is_cheaper(form, form, True)
            found.dot_mean = projections.project(form, mean)
        else:
            found.of_mean, found.dot_mean = gradient is None, projections.along(form, projections.vector_of(mean))
    return found


def _indexed(form: Indexed, theta: Tensor, wanted: Wanted, vectors: Mapping[str, Tensor]) -> Statistics:
    """Only the looked-up rows; all other elements are zero and are counted, not visited."""
    found = Statistics(dots={name: projections.along(form, v) for name, v in vectors.items()})
    if not (wanted.sq_norm or wanted.elements):
        return found
    form = _coalesced(form)
    value, samples = form.value, form.samples
    if wanted.sq_norm:
        found.sq_norm = value.new_zeros(samples).index_add_(0, form.sample, value.square().sum(1))
    if wanted.sum_sq:
        empty = value.new_zeros(form.shape[0], value.shape[1])
        found.sum_sq = empty.index_add_(0, form.index, value.square()).reshape(form.shape)
    if wanted.abs_max:
        found.abs_max = value.abs().max() if value.numel() else value.new_zeros(())
    for bins in wanted.hist1d:
        found.hist1d[bins] = histograms.rows_1d(value, samples * prod(form.shape), bins)
    for pair in wanted.hist2d:
        matrix = wide(theta).reshape(form.shape[0], -1)
        found.hist2d[pair] = histograms.rows_2d(value, form.index, samples, matrix, *pair)
    return found


def _coalesced(form: Indexed) -> Indexed:
    single = widened(form)
    assert isinstance(single, Indexed)
    return single.coalesce()
