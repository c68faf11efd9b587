"""Launches the kernels for squares of per-sample gradients of convolutions: under max-pooling, and any other."""

import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.engine.kernels.devices import on, processors
from cockpit.engine.scattered import Scattered
from cockpit.engine.windows import Windows

COLUMNS, PLACES, WIDTH = 16, 16, 32
WARPS = 1
PROGRAMS = 64  # for each multiprocessor
WHOLE = {"ROWS": 128, "PLACES": 16, "WIDTH": 128, "num_warps": 8}  # of the kernel for all positions
WHOLE_PROGRAMS = 4  # for each multiprocessor
NARROW = 128  # elements of a kernel up to which this is quicker than products with all positions (H200, 3c3d and 2c2d)


def pooled_squares(
    signal: Tensor,
    grad: Scattered,
    signs: Tensor | None,
    windows: Windows,
    rounded: bool,
) -> Tensor:
    """Return sum_nk sign_nk g_nk^2, [O, kernel elements x input channels], the channels last.

    ``rounded``: products may round their inputs to ten bits, as convolutions on this GPU do.
    """
    from cockpit.engine.pooled_program import pooled_program

    columns, samples, channels, places = grad.value.shape
    images, offsets, steps = _pictures(signal, windows)
    width = offsets.numel()
    tiles, blocks = -(-width // WIDTH), -(-columns // COLUMNS)
    each = max(1, samples * channels * tiles * blocks // (PROGRAMS * processors(images.device)))
    splits = -(-samples // each)
    partial = torch.empty(splits * blocks, channels, width, dtype=torch.float32, device=images.device)
    with on(images.device):
        pooled_program[(channels, tiles, splits * blocks)](
            grad.value.contiguous(),
            grad.index_or(-1).contiguous(),
            images,
            offsets,
            partial if signs is None else signs.float().contiguous(),
            partial,
            samples,
            each,
            columns,
            places,
            width,
            *steps,
            grad.shape[3],
            SIGNED=signs is not None,
            PRECISION=_precision(rounded),
            COLUMNS=COLUMNS,
            PLACES=PLACES,
            WIDTH=WIDTH,
            num_warps=WARPS,
        )
    return partial.sum(0)


def squares(
    signal: Tensor,
    value: Tensor,
    signs: Tensor | None,
    windows: Windows,
    rounded: bool,
) -> Tensor:
    """The same for gradients at all positions, ``value``, [K, N, O, height, width]."""
    from cockpit.engine.squares_program import squares_program

    columns, samples, channels, height, across = value.shape
    images, offsets, steps = _pictures(signal, windows)
    width, rows = offsets.numel(), columns * channels
    tiles = -(-rows // WHOLE["ROWS"]), -(-width // WHOLE["WIDTH"])
    each = max(1, samples * tiles[0] * tiles[1] // (WHOLE_PROGRAMS * processors(images.device)))
    splits = -(-samples // each)
    partial = torch.empty(splits * columns, channels, width, dtype=torch.float32, device=images.device)
    with on(images.device):
        squares_program[(*tiles, splits)](
            value.contiguous(),
            images,
            offsets,
            partial if signs is None else signs.float().contiguous(),
            partial,
            samples,
            each,
            rows,
            channels,
            height * across,
            width,
            *steps,
            across,
            SIGNED=signs is not None,
            PRECISION=_precision(rounded),
            **WHOLE,
        )
    return partial.sum(0)


def _precision(rounded: bool) -> str:
    return "tf32" if rounded else "tf32x3"


def _pictures(signal: Tensor, windows: Windows) -> tuple[Tensor, Tensor, tuple[int, int, int]]:
    """Images with channels last and margins; where a patch's elements lie; steps to the next image, row, position."""
    down, right = windows.padding
    images = F.pad(signal.permute(0, 2, 3, 1), (0, 0, right, right, down, down)).contiguous()
    channels = images.shape[3]
    line = images.shape[2] * channels
    steps = images[0].numel(), windows.stride[0] * line, windows.stride[1] * channels
    return images, _offsets(windows, line, channels, images.device), steps


_known: dict[tuple[object, ...], Tensor] = {}


def _offsets(windows: Windows, line: int, channels: int, device: torch.device) -> Tensor:
    """From the first element of a patch to the others, in the order of height, width and channel."""
    key = (windows.kernel, windows.dilation, line, channels, device)
    if key not in _known:
        sizes = zip(windows.kernel, windows.dilation, strict=True)
        down, right = (torch.arange(size, device="cpu") * spread for size, spread in sizes)
        places = down[:, None, None] * line + right[:, None] * channels + torch.arange(channels, device="cpu")
        _known[key] = places.flatten().to(device, torch.int32)
    return _known[key]
