"""Exact histograms of outer products, and joint histograms of gradient and parameter."""

import torch
from torch import Tensor

from cockpit.engine.kernels.devices import on, processors
from cockpit.engine.kernels.shapes import cdiv, check_size, joint_counts, rows_of_counts, units
from cockpit.engine.kernels.tables import table_of
from cockpit.engine.statistics.bins import Bins

PROGRAMS = 8  # for each multiprocessor, where there is enough to do
MOST_ROWS = 128  # elements of a row that one program looks at together
SAMPLES = 4  # that a program of a joint histogram looks at together


def outer_1d(row: Tensor, col: Tensor, factor: float, bins: Bins) -> Tensor:
    """Histogram of (row_no * factor) * col_ni for ``row`` [N, O] and ``col`` [N, I]: int64 [bins]."""
    samples, outputs = row.shape
    inputs = col.shape[1]
    check_size(MOST_ROWS * inputs)
    if not row.numel() or not col.numel():
        return torch.zeros(bins.count, dtype=torch.int64, device=row.device)
    from cockpit.engine.kernels.outer_program import outer_program

    row, col = row.contiguous(), col.contiguous()
    enough = cdiv(PROGRAMS * processors(row.device), samples)  # programs for each sample
    each = min(MOST_ROWS, cdiv(cdiv(outputs, enough), 8) * 8)
    blocks = cdiv(outputs, each)
    table = table_of(bins, row.device)
    counts, whole = rows_of_counts(samples * blocks, table)
    count, unit = units(inputs)
    with on(row.device):
        outer_program[(samples * blocks,)](
            row,
            col,
            counts,
            whole,
            table.values,
            outputs,
            count,
            blocks,
            each,
            float(factor),
            UNIT=unit,
            WIDTH=table.width,
            STEPS=table.steps,
            MOST=MOST_ROWS,
            ROWS=8,
            COLUMNS=512,
            num_warps=4,
            maxnreg=80 if table.width < 1024 else 128,
        )
        return whole[: bins.count]


def outer_2d(row: Tensor, col: Tensor, factor: float, theta: Tensor, gradient: Bins, parameter: Bins) -> Tensor:
    """Histogram of ((row_no * factor) * col_ni, theta_oi): int64 [gradient bins, parameter bins]."""
    row, col = row.contiguous(), col.contiguous()
    return _plane(row, col, factor, theta.detach().reshape(row.shape[1], col.shape[1]), gradient, parameter)


def scan_2d(g: Tensor, factor: float, theta: Tensor, gradient: Bins, parameter: Bins) -> Tensor:
    """Histogram of (factor * g_nd, theta_d) for ``g`` [N, D]: int64 [gradient bins, parameter bins]."""
    return _plane(g.contiguous(), None, factor, theta.detach().reshape(1, g.shape[1]), gradient, parameter)


def _plane(left: Tensor, right: Tensor | None, factor: float, theta: Tensor, bins: Bins, parameter: Bins) -> Tensor:
    samples, (outputs, inputs) = left.shape[0], theta.shape
    check_size(outputs * inputs)
    counts = joint_counts(bins, parameter, left.device)
    if not samples or not theta.numel():
        return counts[0]
    from cockpit.engine.kernels.plane_program import plane_program

    rows, columns = (8, 128) if right is not None else (1, 1024)
    tiles = cdiv(outputs, rows) * cdiv(inputs, columns)
    each = cdiv(cdiv(samples, cdiv(PROGRAMS * processors(left.device), tiles)), SAMPLES) * SAMPLES
    splits = cdiv(samples, each)
    table, parameter_table = table_of(bins, left.device), table_of(parameter, left.device)
    count, unit = units(inputs)
    with on(left.device):
        plane_program[(tiles * splits,)](
            left,
            left if right is None else right,
            theta.contiguous(),
            counts,
            table.values,
            parameter_table.values,
            samples,
            outputs,
            count,
            parameter.count,
            len(counts),
            counts[0].numel(),
            splits,
            each,
            float(factor),
            UNIT=unit,
            OUTER=right is not None,
            STEPS=table.steps,
            PARAMETER_STEPS=parameter_table.steps,
            ROWS=rows,
            COLUMNS=columns,
            num_warps=4,
            maxnreg=128,
        )
        return counts[0] if len(counts) == 1 else counts.sum(0)
