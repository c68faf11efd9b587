"""Numbers computed from the per-sample gradients of one parameter, written once per form.

Linear layers (one position per sample) are never formed; everything else is formed a chunk of samples at a time.
Letters: N samples, T positions, O rows and I columns of a weight, D elements.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import prod

import torch
from torch import Tensor

from cockpit.engine import histograms
from cockpit.engine.binning import Bins
from cockpit.layers.forms import AnyForm, Dense, Factored, Indexed, chunks


@dataclass(frozen=True)
class Wanted:
    """What the quantities of a step ask for."""

    sq_norm: bool = False
    sum_sq: bool = False
    abs_max: bool = False
    hist1d: tuple[Bins, ...] = ()
    hist2d: tuple[tuple[Bins, Bins], ...] = ()


@dataclass
class Statistics:
    """The numbers of one parameter; counts are int64 whatever their size."""

    sq_norm: Tensor | None = None  # ||g_n||^2, [N]
    dots: dict[str, Tensor] = field(default_factory=dict)  # <g_n, v>, [N]
    sum_sq: Tensor | None = None  # sum_n g_n^2, shape of the parameter
    abs_max: Tensor | None = None
    hist1d: dict[Bins, Tensor] = field(default_factory=dict)  # [bins]
    hist2d: dict[tuple[Bins, Bins], Tensor] = field(default_factory=dict)  # [gradient bins, parameter bins]


def compute(form: AnyForm, theta: Tensor, wanted: Wanted, directions: Mapping[str, Tensor]) -> Statistics:
    """Compute everything wanted of one parameter in one go."""
    if isinstance(form, Factored):
        if form.row.shape[1:3] == (1, 1):
            return _outer(form, theta, wanted, directions)
        if not (wanted.sum_sq or wanted.abs_max or wanted.hist1d or wanted.hist2d) and _gram_is_cheaper(form):
            return _gram(form, wanted, directions)
    if isinstance(form, Indexed):
        return _indexed(form.coalesce(), theta, wanted, directions)
    return _formed(form, theta, wanted, directions)


def mean_gradient(form: AnyForm) -> Tensor:
    """Return mean_n g_n."""
    if isinstance(form, Factored):
        total = torch.einsum("ngto,ngti->goi", form.row, form.col)
        return total.reshape(form.shape) / form.samples
    if isinstance(form, Dense):
        return form.value.mean(0)
    total = reduce(torch.add, (part.sum(0) for _, part in chunks(form)))
    return total.reshape(form.shape) / form.samples


def _outer(form: Factored, theta: Tensor, wanted: Wanted, directions: Mapping[str, Tensor]) -> Statistics:
    """One position per sample, g_n = row_n col_n^T: all from the factors."""
    row, col = form.row[:, 0, 0], form.col[:, 0, 0]  # [N, O], [N, I]
    found = Statistics()
    if wanted.sq_norm:
        found.sq_norm = row.square().sum(1) * col.square().sum(1)
    for name, v in directions.items():
        found.dots[name] = ((col @ v.reshape(row.shape[1], -1).mT) * row).sum(1)
    if wanted.sum_sq:
        found.sum_sq = (row.square().mT @ col.square()).reshape(form.shape)
    if wanted.abs_max:
        found.abs_max = (row.abs().amax(1) * col.abs().amax(1)).max()
    for bins in wanted.hist1d:
        found.hist1d[bins] = histograms.outer_1d(row, col, bins)
    for pair in wanted.hist2d:
        found.hist2d[pair] = histograms.outer_2d(row, col, theta.reshape(row.shape[1], -1), *pair)
    return found


def _gram_is_cheaper(form: Factored) -> bool:
    """T^2 (I + O) against T I O operations for the norms."""
    positions, rows, columns = form.row.shape[2], form.row.shape[3], form.col.shape[3]
    return positions * (rows + columns) < rows * columns


def _gram(form: Factored, wanted: Wanted, directions: Mapping[str, Tensor]) -> Statistics:
    """Norms from T x T inner products, dots from one product for all samples; nothing of size N x D."""
    found = Statistics()
    if wanted.sq_norm:
        step = max(1, 2**22 // form.row.shape[2] ** 2)
        parts = [
            ((row @ row.mT) * (col @ col.mT)).sum((1, 2, 3))
            for row, col in zip(form.row.split(step), form.col.split(step), strict=True)
        ]
        found.sq_norm = torch.cat(parts)
    groups, rows = form.row.shape[1], form.row.shape[3]
    for name, v in directions.items():
        through = form.col @ v.reshape(1, groups, rows, -1).mT  # [N, G, T, O]
        found.dots[name] = (through * form.row).sum((1, 2, 3))
    return found


def _formed(form: AnyForm, theta: Tensor, wanted: Wanted, directions: Mapping[str, Tensor]) -> Statistics:
    """Form g_n a chunk at a time and take everything from the chunk while it is warm."""
    found = Statistics()
    elements = prod(form.shape)
    flat = {name: v.reshape(-1) for name, v in directions.items()}
    theta_bins = {bins: bins.index(theta.reshape(-1)) for _, bins in wanted.hist2d}
    norms: list[Tensor] = []
    dots: dict[str, list[Tensor]] = {name: [] for name in flat}
    for _, g in chunks(form):  # [n, D]
        if wanted.sq_norm:
            norms.append(torch.einsum("nd,nd->n", g, g))
        for name, v in flat.items():
            dots[name].append(g @ v.to(g.dtype))
        if wanted.sum_sq:
            squares = torch.einsum("nd,nd->d", g, g)
            found.sum_sq = squares if found.sum_sq is None else found.sum_sq + squares
        if wanted.abs_max:
            top = g.abs().max() if elements else g.new_zeros(())
            found.abs_max = top if found.abs_max is None else torch.maximum(found.abs_max, top)
        for bins in wanted.hist1d:
            found.hist1d[bins] = found.hist1d.get(bins, 0) + histograms.elements_1d(g, bins)
        for pair in wanted.hist2d:
            counts = histograms.elements_2d(g, theta_bins[pair[1]], *pair)
            found.hist2d[pair] = found.hist2d.get(pair, 0) + counts
    found.sq_norm = torch.cat(norms) if norms else None
    found.dots = {name: torch.cat(parts) for name, parts in dots.items()}
    found.sum_sq = None if found.sum_sq is None else found.sum_sq.reshape(form.shape)
    return found


def _indexed(form: Indexed, theta: Tensor, wanted: Wanted, directions: Mapping[str, Tensor]) -> Statistics:
    """Only the looked-up rows; all other elements are zero and are counted, not visited."""
    found = Statistics()
    value, samples = form.value, form.samples
    per_sample = value.new_zeros(samples)
    if wanted.sq_norm:
        found.sq_norm = per_sample.index_add(0, form.sample, value.square().sum(1))
    for name, v in directions.items():
        rows = v.reshape(form.shape[0], -1)[form.index]
        found.dots[name] = per_sample.index_add(0, form.sample, (rows.to(value.dtype) * value).sum(1))
    if wanted.sum_sq:
        empty = value.new_zeros(form.shape[0], value.shape[1])
        found.sum_sq = empty.index_add(0, form.index, value.square()).reshape(form.shape)
    if wanted.abs_max:
        found.abs_max = value.abs().max() if value.numel() else value.new_zeros(())
    for bins in wanted.hist1d:
        found.hist1d[bins] = histograms.rows_1d(value, samples * prod(form.shape), bins)
    for pair in wanted.hist2d:
        matrix = theta.reshape(form.shape[0], -1)
        found.hist2d[pair] = histograms.rows_2d(value, form.index, samples, matrix, *pair)
    return found
