# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""What max-pooling picks of images, and the way back, in one kernel each (see ``picking.py``).

``places`` says for each value where it lies in the flat images, -1 for nowhere. Channels are last, but in the kernel
that fills in zeros for many columns (see ``filling.py``).
"""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit(do_not_specialize=["size"])
def pick_program(
    one,
    other,
    bias,  # [CHANNELS]
    places,  # [size]
    found,  # [size]
    size,
    CHANNELS: tl.constexpr,
    BOTH: tl.constexpr,
    BIASED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program: BLOCK values, each of the sum of one image, the other and the bias."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(places + at, mask=at < size, other=-1)
    there = place >= 0
    value = tl.load(one + place, mask=there, other=0.0)
    if BOTH:
        value += tl.load(other + place, mask=there, other=0.0)
    if BIASED:
        value += tl.load(bias + at % CHANNELS, mask=there, other=0.0)
    tl.store(found + at, value, mask=at < size)


@triton.jit(do_not_specialize=["size"])
def spread_program(
    value,  # [N, DOWN, ACROSS, CHANNELS]
    places,  # the same
    found,  # [N, HEIGHT, WIDTH, CHANNELS]
    size,  # of ``found``
    CHANNELS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DOWN: tl.constexpr,  # windows in a column
    ACROSS: tl.constexpr,  # windows in a row
    STRIDE: tl.constexpr,
    STRIDE_ACROSS: tl.constexpr,
    PADDING: tl.constexpr,
    PADDING_ACROSS: tl.constexpr,
    OVER: tl.constexpr,  # windows of a column that may hold a place
    OVER_ACROSS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program: BLOCK places; each asks all windows that hold it whether they picked it.

    Sizes are told to the compiler, and numbers have 32 bits: dividing is what takes the time.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, position = at % CHANNELS, at // CHANNELS
    column, row = position % WIDTH, position // WIDTH % HEIGHT
    sample = position // (WIDTH * HEIGHT)
    low, left = (row + PADDING) // STRIDE, (column + PADDING_ACROSS) // STRIDE_ACROSS
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(OVER):
        for j in tl.static_range(OVER_ACROSS):
            y, x = low - i, left - j
            real = (at < size) & (y >= 0) & (y < DOWN) & (x >= 0) & (x < ACROSS)
            window = ((sample * DOWN + y) * ACROSS + x) * CHANNELS + channel
            mine = tl.load(places + window, mask=real, other=-1) == at
            total += tl.load(value + window, mask=mine, other=0.0)
    tl.store(found + at, total, mask=at < size)


@triton.jit(do_not_specialize=["size", "columns"])
def fill_program(
    value,  # [K, N, C, DOWN, ACROSS]
    index,  # [N, C, DOWN, ACROSS]: position in an image
    found,  # [K, N, C, HEIGHT, WIDTH]
    size,  # of a column of ``found``
    columns,  # K
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    DOWN: tl.constexpr,  # windows in a column
    ACROSS: tl.constexpr,  # windows in a row
    STRIDE: tl.constexpr,
    STRIDE_ACROSS: tl.constexpr,
    PADDING: tl.constexpr,
    PADDING_ACROSS: tl.constexpr,
    OVER: tl.constexpr,  # windows of a column that may hold a place
    OVER_ACROSS: tl.constexpr,
    ROUNDED: tl.constexpr,  # to the nearest numbers of ten bits, see ``nearest_program``
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program: BLOCK places of COLUMNS columns; each place asks all windows that hold it whether they picked it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    place, image = at % (HEIGHT * WIDTH), at // (HEIGHT * WIDTH)
    low, left = (place // WIDTH + PADDING) // STRIDE, (place % WIDTH + PADDING_ACROSS) // STRIDE_ACROSS
    picked = (size // (HEIGHT * WIDTH)).to(tl.int64) * (DOWN * ACROSS)
    lines, real_column = value + column.to(tl.int64)[:, None] * picked, (column < columns)[:, None]
    total = tl.zeros([COLUMNS, BLOCK], tl.float32)
    for i in tl.static_range(OVER):
        for j in tl.static_range(OVER_ACROSS):
            y, x = low - i, left - j
            real = (at < size) & (y >= 0) & (y < DOWN) & (x >= 0) & (x < ACROSS)
            window = (image * DOWN + y) * ACROSS + x
            mine = tl.load(index + window, mask=real, other=-1) == place
            total += tl.load(lines + window[None, :], mask=mine[None, :] & real_column, other=0.0)
    if ROUNDED:
        bits = (total.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
        total = tl.where(total == total, bits.to(tl.float32, bitcast=True), total)
    rows = found + column.to(tl.int64)[:, None] * size
    tl.store(rows + at[None, :], total, mask=(at < size)[None, :] & real_column)
