"""Statistics of g_n = row_n col_n^T (linear layers, one position per sample): all from the factors."""

import torch
from torch import Tensor

from cockpit.engine import gram, histograms, kernels, native
from cockpit.engine.outer_joint import joint
from cockpit.engine.outer_products import Products
from cockpit.engine.projections import outer, project, vector_of
from cockpit.engine.statistics.bins import Bins
from cockpit.engine.vectors import scaled, square_rows
from cockpit.engine.wanted import Directions, Statistics, Wanted
from cockpit.layers.forms import Factored, chunks, wide


def compute(
    form: Factored, theta: Tensor, wanted: Wanted, directions: Directions, gradient: Tensor | None
) -> Statistics:
    """Compute everything wanted."""
    found = Statistics(way="gram")
    col = wide(form.col[:, 0, 0])  # [N, I]
    row = wide(form.row[:, 0, 0])  # [N, O]
    row = row if form.factor == 1 else scaled(row, form.factor)
    _inner_products(found, form, row, col, wanted, directions, gradient)
    if wanted.sum_sq:
        found.sum_sq = (row.square().mT @ col.square()).reshape(form.shape)
    if wanted.abs_max:
        tops = (torch.linalg.vector_norm(factor, float("inf"), dim=1) for factor in (row, col))
        found.abs_max = torch.mul(*tops).max()
    if wanted.hist1d or wanted.hist2d:
        _histograms(found, form, row, col, theta, wanted)
    return found


def _inner_products(
    found: Statistics,
    form: Factored,
    row: Tensor,
    col: Tensor,
    wanted: Wanted,
    directions: Directions,
    gradient: Tensor | None,
) -> None:
    if wanted.dot_mean and gram.mean_is_cheaper(form, form, gradient is not None):
        found.dot_mean, norms = gram.mean_and_norms(row, col)
        found.of_mean, found.sq_norm = True, norms if wanted.sq_norm else None
    elif wanted.sq_norm:
        found.sq_norm = gram.times(square_rows(row), square_rows(col))
    vectors: dict[str, Tensor] = {}
    for name, direction in directions.items():
        other, known = direction.mean_of, direction.vector is not None
        if isinstance(other, Factored) and gram.mean_is_cheaper(form, other, known):
            found.dots[name] = project(form, direction)
        else:
            vectors[name] = vector_of(direction)
    if wanted.dot_mean and found.dot_mean is None:
        vectors[""] = gradient if gradient is not None else (row.mT @ col) / len(row)
    found.dots.update(zip(vectors, outer(row, col, list(vectors.values())), strict=True))
    if "" in vectors:
        found.dot_mean, found.of_mean = found.dots.pop(""), gradient is None


def _histograms(found: Statistics, form: Factored, row: Tensor, col: Tensor, theta: Tensor, wanted: Wanted) -> None:
    theta = wide(theta.detach()).reshape(row.shape[1], -1)
    if row.device.type == "cpu":
        if native.usable(row, col, theta):
            found.hist1d = {bins: native.outer_counts(row, col, bins) for bins in wanted.hist1d}
            found.hist2d = {pair: native.joint_counts(row, col, theta, *pair) for pair in wanted.hist2d}
            return
        products = Products(row, col)
        axes = {bins: histograms.Axis(theta, bins) for _, bins in wanted.hist2d}
        found.hist1d = {bins: products.histogram(bins) for bins in wanted.hist1d}
        found.hist2d = {pair: joint(products, axes[pair[1]], pair[0]) for pair in wanted.hist2d}
        return
    if kernels.usable(form.row) and kernels.usable(form.col):
        factors = form.row[:, 0, 0], form.col[:, 0, 0], form.factor
        found.hist1d = {bins: kernels.outer_1d(*factors, bins) for bins in wanted.hist1d}
        found.hist2d = {pair: kernels.outer_2d(*factors, theta, *pair) for pair in wanted.hist2d}
        return
    found.hist1d = {bins: _looked_up(form, bins) for bins in wanted.hist1d}
    for pair in wanted.hist2d:
        parts = [histograms.looked_up_2d(g, theta, *pair) for _, g in chunks(form, histograms.PIECE)]
        found.hist2d[pair] = torch.stack(parts).sum(0)


def _looked_up(form: Factored, bins: Bins) -> Tensor:
    return torch.stack([histograms.looked_up(g, bins) for _, g in chunks(form, histograms.PIECE)]).sum(0)
