# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""Squares of the per-sample gradients of a convolution under max-pooling, in one kernel (see ``conv_squares.py``)."""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit(do_not_specialize=["samples", "each", "columns", "places", "width"])
def pooled_program(
    value,  # [K, N, O, S]
    index,  # [N, O, S]: position in the output of the convolution, -1 for nowhere
    images,  # [N, padded height, padded width, C]
    offsets,  # [I]: from the first element of a patch to the others
    signs,  # [K, N]
    partial,  # [splits * column blocks, O, I]
    samples,
    each,  # samples of a split
    columns,
    places,
    width,
    image,  # elements of a padded image
    line,  # elements from one row of positions to the next
    stride,  # elements from one position to the next
    SIGNED: tl.constexpr,
    ROUNDED: tl.constexpr,
    ACROSS: tl.constexpr,  # positions in a row of the output: dividing by what is known is quick
    COLUMNS: tl.constexpr,
    PLACES: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """A program: one channel, WIDTH elements of the kernel, COLUMNS columns, one split of the samples."""
    channel = tl.program_id(0)
    channels = tl.num_programs(0)
    element = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    blocks = (columns + COLUMNS - 1) // COLUMNS
    split = tl.program_id(2) // blocks
    column = tl.program_id(2) % blocks * COLUMNS + tl.arange(0, COLUMNS)
    real_column, real_element = column < columns, element < width
    offset = tl.load(offsets + element, mask=real_element, other=0)
    total = tl.zeros([WIDTH], tl.float32)
    start = (split * each).to(tl.int64)
    row = (start * channels + channel) * places
    picture = images + start * image
    lines = value + column.to(tl.int64)[:, None] * samples * channels * places
    for n in range(split * each, tl.minimum(split * each + each, samples)):
        formed = tl.zeros([COLUMNS, WIDTH], tl.float32)
        for first in range(0, places, PLACES):
            place = first + tl.arange(0, PLACES)
            real_place = place < places
            position = tl.load(index + row + place, mask=real_place, other=-1).to(tl.int32)
            there = position >= 0
            corner = tl.where(there, position // ACROSS * line + position % ACROSS * stride, 0)
            left = tl.load(lines + row + place[None, :], mask=real_column[:, None] & there[None, :], other=0.0)
            right = tl.load(
                picture + corner[:, None] + offset[None, :], mask=there[:, None] & real_element[None, :], other=0.0
            )
            precision: tl.constexpr = "tf32" if ROUNDED else "tf32x3"
            formed += tl.dot(left.to(tl.float32), right.to(tl.float32), input_precision=precision)
        square = formed * formed
        if SIGNED:
            sign = tl.load(signs + column * samples + n, mask=real_column, other=0.0)
            square = square * sign[:, None]
        total += tl.sum(square, 0)
        row += channels * places
        picture += image
    place_of = (tl.program_id(2).to(tl.int64) * channels + channel) * width + element
    tl.store(partial + place_of, total, mask=real_element)
