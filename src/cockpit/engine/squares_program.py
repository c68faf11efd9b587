# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""Squares of the per-sample gradients of a convolution, in one kernel: none is stored (see ``conv_squares.py``)."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit(do_not_specialize=["samples", "each", "rows", "channels", "positions", "width"])
def squares_program(
    value,  # [K, N, O, T]
    images,  # [N, padded height, padded width, C]
    offsets,  # [I]: from the first element of a patch to the others
    signs,  # [K, N]
    partial,  # [splits, K * O, I]
    samples,
    each,  # samples of a split
    rows,  # K * O
    channels,  # O
    positions,
    width,
    image,  # elements of a padded image
    line,  # elements from one row of positions to the next
    stride,  # elements from one position to the next
    across,  # positions in a row of the output
    SIGNED: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    PLACES: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """A program: ROWS channels of columns, WIDTH elements of the kernel, one split of the samples."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    element = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    real_row, real_element = row < rows, element < width
    offset = tl.load(offsets + element, mask=real_element, other=0)
    column, channel = row // channels, row % channels
    start = (tl.program_id(2) * each).to(tl.int64)
    lines = value + ((column.to(tl.int64) * samples + start) * channels + channel) * positions
    picture = images + start * image
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for n in range(tl.program_id(2) * each, tl.minimum(tl.program_id(2) * each + each, samples)):
        formed = tl.zeros([ROWS, WIDTH], tl.float32)
        for first in range(0, positions, PLACES):
            place = first + tl.arange(0, PLACES)
            real_place = place < positions
            corner = place // across * line + place % across * stride
            left = tl.load(lines[:, None] + place[None, :], mask=real_row[:, None] & real_place[None, :], other=0.0)
            right = tl.load(
                picture + corner[:, None] + offset[None, :], mask=real_place[:, None] & real_element[None, :], other=0.0
            )
            formed = tl.dot(left.to(tl.float32), right.to(tl.float32), formed, input_precision=PRECISION)
        if SIGNED:
            sign = tl.load(signs + column * samples + n, mask=real_row, other=0.0)
            total += formed * formed * sign[:, None]
        else:
            total += formed * formed
        lines += channels * positions
        picture += image
    place_of = (tl.program_id(2).to(tl.int64) * rows + row)[:, None] * width + element[None, :]
    tl.store(partial + place_of, total, mask=real_row[:, None] & real_element[None, :])
