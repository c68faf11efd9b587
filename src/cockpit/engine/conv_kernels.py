"""Launches the kernels for squares of per-sample gradients of convolutions: under max-pooling, and any other."""

from math import gcd

import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.engine.kernels.devices import on, processors, shared_memory
from cockpit.engine.scattered import Scattered
from cockpit.engine.windows import Windows

COLUMNS, PLACES, WIDTH = 16, 16, 32
WARPS = 1
PROGRAMS = 64  # for each multiprocessor
ONCE = 64  # positions up to which the kernel for all of them takes a sample in one product
WHOLE = {"ROWS": 128, "PLACES": 16, "WIDTH": 64, "num_warps": 8, "num_stages": 4}  # else
WHOLE_ONCE = {"ROWS": 128, "PLACES": ONCE, "WIDTH": 64, "num_warps": 8, "num_stages": 3}
SHARED = 147_456  # bytes that this takes on a multiprocessor; not all devices have them
WHOLE_PROGRAMS = 2  # for each multiprocessor
PIECE = 1024  # numbers that a program rounds
NARROW = 128  # elements of a kernel up to which this is quicker than products with all positions (H200, 3c3d and 2c2d)


def pooled_squares(
    signal: Tensor,
    grad: Scattered,
    signs: Tensor | None,
    windows: Windows,
    rounded: bool,
) -> Tensor:
    """Return sum_nk sign_nk g_nk^2 in the shape of the weight, [O, C, height, width].

    ``rounded``: all inputs have ten bits, see :func:`nearest`.
    """
    from cockpit.engine.pooled_program import pooled_program

    columns, samples, channels, places = grad.value.shape
    images, offsets, steps = _pictures(signal, windows, channels_last=True)
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
            SIGNED=signs is not None,
            ROUNDED=rounded,
            ACROSS=grad.shape[3],
            COLUMNS=COLUMNS,
            PLACES=PLACES,
            WIDTH=WIDTH,
            num_warps=WARPS,
            num_stages=1,  # loads ahead take registers, and so programs away
        )
    return partial.sum(0).view(channels, *windows.kernel, -1).movedim(-1, 1)


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
    images, offsets, steps = _pictures(signal, windows, channels_last=False)
    width, rows, positions = offsets.numel(), columns * channels, height * across
    aligned, once = gcd(positions, 4), positions <= ONCE and shared_memory(images.device) >= SHARED
    shape = WHOLE_ONCE if once else WHOLE
    tiles = -(-rows // shape["ROWS"]), -(-width // shape["WIDTH"])
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
            positions // aligned,
            width,
            *steps,
            SIGNED=signs is not None,
            ROUNDED=rounded,
            ACROSS=across,
            ALIGNED=aligned,
            ONCE=once,
            **shape,
        )
    return partial.sum(0).view(channels, -1, *windows.kernel)


def nearest(tensor: Tensor) -> Tensor:
    """Rounded to the ten bits that convolutions on a GPU read."""
    from cockpit.engine.squares_program import nearest_program

    if tensor.dtype != torch.float32:
        return tensor  # half precision has no more
    given = tensor.contiguous()
    found = torch.empty_like(given)
    with on(given.device):
        nearest_program[(-(-given.numel() // PIECE),)](given, found, given.numel(), SIZE=PIECE)
    return found


def _pictures(signal: Tensor, windows: Windows, channels_last: bool) -> tuple[Tensor, Tensor, tuple[int, int, int]]:
    """Images with margins; where a patch's elements lie; steps to the next image, row, position.

    Elements are in the order of the images: those that are read together lie near each other.
    """
    down, right = windows.padding
    images = F.pad(signal, (right, right, down, down))
    images = images.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    apart, line, step = images.stride()[1:]
    steps = images[0].numel(), windows.stride[0] * line, windows.stride[1] * step
    return images, _offsets(windows, line, step, apart, images.shape[1], images.device), steps


_known: dict[tuple[object, ...], Tensor] = {}


def _offsets(windows: Windows, line: int, step: int, apart: int, channels: int, device: torch.device) -> Tensor:
    """From the first element of a patch to the others."""
    key = (windows.kernel, windows.dilation, line, step, apart, channels, device)
    if key not in _known:
        sizes = zip(windows.kernel, windows.dilation, strict=True)
        down, right = (torch.arange(size, device="cpu") * spread for size, spread in sizes)
        others = torch.arange(channels, device="cpu") * apart
        places = others[:, None, None] + down[:, None] * line + right * step
        places = places.movedim(0, 2) if apart == 1 else places
        _known[key] = places.flatten().to(device, torch.int32)
    return _known[key]
