"""Norms, inner products and the histogram of formed per-sample gradients, reading them once."""

import torch
from torch import Tensor

from cockpit.engine.kernels.devices import on, processors
from cockpit.engine.kernels.shapes import cdiv, check_size, rows_of_counts, units
from cockpit.engine.kernels.tables import table_of
from cockpit.engine.statistics.bins import Bins

MOST_VECTORS = 4
PROGRAMS = 4  # that a multiprocessor runs at a time: one round of them, so that none waits for the last


def scan(
    g: Tensor, vectors: Tensor | None, bins: Bins | None, factor: float = 1.0
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return ||g_n||^2 [N], <g_n, v_k> [k, N] and the histogram [bins], all of ``factor * g``, for ``g`` [N, D].

    Sums are added in a fixed order: equal inputs give equal results.
    """
    samples, size = g.shape
    many = 0 if vectors is None else len(vectors)
    if many > MOST_VECTORS:
        raise ValueError(f"{many} vectors: at most {MOST_VECTORS} are taken in one pass, so split them")
    check_size(size)
    if not g.numel():
        sums, counts = torch.zeros(1 + many, samples, dtype=torch.float32, device=g.device), None
        if bins is not None:
            counts = torch.zeros(bins.count, dtype=torch.int64, device=g.device)
    else:
        sums, counts = _launch(g.contiguous(), vectors, bins, factor)
    return sums[0], None if vectors is None else sums[1:], counts


def _launch(g: Tensor, vectors: Tensor | None, bins: Bins | None, factor: float) -> tuple[Tensor, Tensor | None]:
    from cockpit.engine.kernels.scan_program import scan_program

    samples, size = g.shape
    many = 0 if vectors is None else len(vectors)
    count, unit = units(size)
    rows = 8 if samples > 3 else 1
    columns = (4096 if unit > 1 else 1024) // rows
    tiles, groups = cdiv(size, columns), cdiv(samples, rows)
    each = cdiv(tiles, max(1, PROGRAMS * processors(g.device) // groups))
    splits = cdiv(tiles, each)
    sums = torch.empty(splits, 1 + many, samples, dtype=torch.float32, device=g.device)
    table = None if bins is None else table_of(bins, g.device)
    counts, whole = (None, None) if table is None else rows_of_counts(groups * splits, table)
    width = 128 if table is None else table.width
    with on(g.device):
        scan_program[(groups * splits,)](
            g,
            sums if vectors is None else vectors.float().contiguous(),
            sums,
            sums if counts is None else counts,
            sums if whole is None else whole,
            sums if table is None else table.values,
            samples,
            count,
            splits,
            each,
            float(factor),
            UNIT=unit,
            VECTORS=many,
            COUNT=table is not None,
            WIDTH=width,
            STEPS=table.steps if table is not None else 2,
            ROWS=rows,
            COLUMNS=columns,
            num_warps=4,
            maxnreg=128 if many < 3 and width < 1024 else 168,
        )
        added = sums[0] if splits == 1 else sums.sum(0)
        return added, None if bins is None or whole is None else whole[: bins.count]
