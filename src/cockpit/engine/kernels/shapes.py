"""What the launches share: sizes, and the rows of counts that programs fill."""

import torch
from torch import Tensor

from cockpit.engine.kernels.tables import Table
from cockpit.engine.statistics.bins import Bins

CELLS = 2**19  # of all copies of a joint histogram together


def cdiv(whole: int, part: int) -> int:
    """How many parts the whole has."""
    return -(-whole // part)


def units(size: int) -> tuple[int, int]:
    """(u, unit) with size = u * unit: kernels are built for the unit, 4 where loads may be wide, so only twice."""
    return (size // 4, 4) if size % 4 == 0 else (size, 1)


def check_size(size: int) -> None:
    """Places inside one sample, and a few times as much, are counted in 32 bits."""
    if size > 2**29:
        raise ValueError(f"{size} elements per sample: the kernels take at most {2**29}, so split them")


def rows_of_counts(programs: int, table: Table) -> tuple[Tensor, Tensor]:
    """A row for each program, which sets it to zero itself; and one for all, where counts may exceed 32 bits."""
    device = table.values.device
    each = torch.empty(programs, table.width, dtype=torch.int32, device=device)
    return each, torch.zeros(table.width, dtype=torch.int64, device=device)


def joint_counts(gradient: Bins, parameter: Bins, device: torch.device) -> Tensor:
    """Zeros [copies, gradient bins, parameter bins]: with copies, few programs add to the same place at a time."""
    copies = max(1, min(32, CELLS // (gradient.count * parameter.count)))
    return torch.zeros(copies, gradient.count, parameter.count, dtype=torch.int64, device=device)
