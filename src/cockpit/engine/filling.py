"""Fill in the zeros of gradients that max-pooling sends, once for all who read them with their zeros: by a kernel."""

from math import prod

import torch

from cockpit.engine import kernels
from cockpit.engine.kernels.devices import on
from cockpit.engine.scattered import Scattered
from cockpit.layers.forms import convolutions_round

BLOCK, COLUMNS = 256, 4
MOST = 2**31 - BLOCK  # numbers of a column's images that the kernel counts


def rounds() -> bool:
    """Whether what convolutions read may be rounded to the ten bits that they take: in recordings, as in training."""
    return torch.cuda.is_current_stream_capturing() and convolutions_round()


def fill(grad: Scattered, room: int, convolved: bool) -> None:
    """Keep ``grad.whole``, where there is room and a kernel runs; ``convolved``: nobody but a convolution reads it."""
    size = prod(grad.shape)
    small = size < MOST and len(grad) * size * grad.dtype.itemsize <= room
    if grad.whole or grad.windows is None or not small or not kernels.usable(grad.value):
        return
    if grad.dtype == torch.float32:
        grad.whole.append(_filled(grad, convolved and rounds()))


def _filled(grad: Scattered, rounded: bool) -> torch.Tensor:
    from cockpit.engine.pick_program import fill_program

    value, windows = grad.values().contiguous(), grad.windows
    assert windows is not None
    columns, size, (height, width) = len(grad), prod(grad.shape), grad.shape[2:]
    found = torch.empty(columns, *grad.shape, dtype=torch.float32, device=value.device)
    down, across = grad.grid
    with on(value.device):
        fill_program[(-(-size // BLOCK), -(-columns // COLUMNS))](
            value,
            grad.index.contiguous(),
            found,
            size,
            columns,
            HEIGHT=height,
            WIDTH=width,
            DOWN=down,
            ACROSS=across,
            **windows.told(),
            ROUNDED=rounded,
            COLUMNS=COLUMNS,
            BLOCK=BLOCK,
        )
    return found
