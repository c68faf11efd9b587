# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""Squares of the per-sample gradients of a convolution, in one kernel: none is stored (see ``conv_squares.py``).

Both operands have the positions, over which products are summed, next to each other in memory: the quickest products of
a Hopper GPU read them in that order only.
"""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def nearest_program(given, found, size, SIZE: tl.constexpr):
    """The nearest numbers of ten bits: products that take ten would leave out the rest, which makes all smaller."""
    place = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    x = tl.load(given + place, mask=place < size)
    bits = (x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
    tl.store(found + place, tl.where(x == x, bits.to(tl.float32, bitcast=True), x), mask=place < size)


@triton.jit
def _formed(lines, picture, first, positions, line, stride, formed, ROUNDED, ACROSS, PLACES: tl.constexpr):
    """Add the products over the positions from the first on."""
    place = first + tl.arange(0, PLACES)
    left = tl.load(lines[:, None] + place[None, :], mask=(place < positions)[None, :], other=0.0)
    place = tl.minimum(place, positions - 1)
    corner = place // ACROSS * line + place % ACROSS * stride
    right = tl.load(picture[:, None] + corner[None, :])
    precision: tl.constexpr = "tf32" if ROUNDED else "tf32x3"
    return tl.dot(left.to(tl.float32), tl.trans(right.to(tl.float32)), formed, input_precision=precision)


@triton.jit(do_not_specialize=["samples", "each", "rows", "channels", "runs", "width", "image", "line"])
def squares_program(
    value,  # [K, N, O, T]
    images,  # [N, C, padded height, padded width]
    offsets,  # [I]: from the first element of a patch to the others
    signs,  # [K, N]
    partial,  # [splits, K * O, I]
    samples,
    each,  # samples of a split
    rows,  # K * O
    channels,  # O
    runs,  # positions / ALIGNED
    width,
    image,  # elements of a padded image
    line,  # elements from one row of positions to the next
    stride,  # elements from one position to the next
    SIGNED: tl.constexpr,
    ROUNDED: tl.constexpr,
    ACROSS: tl.constexpr,  # positions in a row of the output: dividing by what is known is quick
    ALIGNED: tl.constexpr,  # a divisor of the positions: as many are read at once
    ONCE: tl.constexpr,  # all positions fit into one product
    ROWS: tl.constexpr,
    PLACES: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """A program: ROWS channels of columns, WIDTH elements of the kernel, one split of the samples."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    element = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    offset = tl.load(offsets + tl.minimum(element, width - 1))
    column, channel = tl.minimum(row, rows - 1) // channels, tl.minimum(row, rows - 1) % channels
    positions = runs * ALIGNED
    start = tl.program_id(2) * each
    lines = value + ((column.to(tl.int64) * samples + start) * channels + channel) * positions
    picture = images + image.to(tl.int64) * start + offset
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for n in range(start, tl.minimum(start + each, samples)):
        formed = tl.zeros([ROWS, WIDTH], tl.float32)
        if ONCE:
            formed = _formed(lines, picture, 0, positions, line, stride, formed, ROUNDED, ACROSS, PLACES)
        else:
            for first in range(0, positions, PLACES):
                formed = _formed(lines, picture, first, positions, line, stride, formed, ROUNDED, ACROSS, PLACES)
        if SIGNED:
            sign = tl.load(signs + column * samples + n)
            total += formed * formed * sign[:, None]
        else:
            total += formed * formed
        lines += channels * positions
        picture += image
    place_of = (tl.program_id(2).to(tl.int64) * rows + row)[:, None] * width + element[None, :]
    tl.store(partial + place_of, total, mask=(row < rows)[:, None] & (element < width)[None, :])
