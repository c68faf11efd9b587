"""A vector made orthogonal to the rows of a matrix and appended to them as a unit vector: by kernels, or by torch."""

import torch
from torch import Tensor

from cockpit.engine import kernels
from cockpit.engine.kernels.devices import on, processors

BLOCK = 512  # elements of all rows that a program has at once
UNIT = 1024  # elements that a program of the last pass writes
EACH = 2  # programs for each multiprocessor


def settle(rows: Tensor, image: Tensor, newest: Tensor, vector: Tensor) -> Tensor:
    """Take away the parts of ``image`` along all rows; as a unit vector it is ``vector``, and the row after the newest.

    Twice along all of them: what the first time leaves over are rounding errors. Returns the parts, and in the last
    place the length of what was left. Everything is overwritten in place; no number is looked at.
    """
    if image.dtype == torch.float32 and kernels.usable(image):
        return _by_kernels(rows, image, newest, vector)
    parts = rows @ image
    image.addmv_(rows.mT, parts, alpha=-1)
    errors = rows @ image
    image.addmv_(rows.mT, errors, alpha=-1)
    length = image.norm()
    torch.div(image, length, out=vector)
    rows.index_copy_(0, newest.add_(1), vector[None])
    return torch.cat([parts.add_(errors), length[None]])


def _by_kernels(rows: Tensor, image: Tensor, newest: Tensor, vector: Tensor) -> Tensor:
    """Four passes, three of them over the rows."""
    from cockpit.engine.settle_program import pass_program, unit_program

    count, size = rows.shape
    programs = min(EACH * processors(rows.device), -(-size // BLOCK))
    each = -(-size // programs)
    shape = {"COUNT": count, "ROWS": _power_of_two(count), "PROGRAMS": _power_of_two(programs)}
    along = torch.empty(3, programs, shape["ROWS"], dtype=torch.float32, device=rows.device)
    numbers = torch.empty(count + 1, dtype=torch.float32, device=rows.device)
    with on(rows.device):
        for turn in range(3):
            before, found = along[max(turn - 1, 0)], along[turn]
            steps = {"REMOVE": turn > 0, "MEET": turn < 2, "BLOCK": BLOCK}
            pass_program[(programs,)](rows, image, before, found, newest, size, each, programs, **steps, **shape)
        unit_program[(-(-size // UNIT),)](
            rows, image, along, newest, vector, numbers, size, programs, BLOCK=UNIT, **shape
        )
    return numbers


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
