# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""A vector made orthogonal to the rows of a matrix, in four passes over it (see ``settling.py``).

Each program has a part of the elements, and leaves sums over it to the next pass.
"""

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def _summed(sums, programs, ROWS: tl.constexpr, PROGRAMS: tl.constexpr):
    """What all programs have found, [ROWS]."""
    program, row = tl.arange(0, PROGRAMS), tl.arange(0, ROWS)
    each = tl.load(sums + program[:, None] * ROWS + row[None, :], mask=(program < programs)[:, None], other=0.0)
    return tl.sum(each, 0)


@triton.jit(do_not_specialize=["size", "each", "programs"])
def pass_program(
    rows,  # [COUNT, size]
    image,  # [size]
    along,  # [programs, ROWS]: sums of the pass before
    found,  # [programs, ROWS]
    newest,  # [1]
    size,
    each,  # elements of a program
    programs,
    COUNT: tl.constexpr,
    REMOVE: tl.constexpr,  # the parts along the rows that the pass before has found
    MEET: tl.constexpr,  # then products with the rows, else the square; and the newest row is the next
    ROWS: tl.constexpr,
    PROGRAMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program: its part of the elements, BLOCK at a time."""
    pid = tl.program_id(0)
    row = tl.arange(0, ROWS)
    parts = tl.zeros([ROWS], tl.float32)
    if REMOVE:
        parts = _summed(along, programs, ROWS, PROGRAMS)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(pid * each, tl.minimum(pid * each + each, size), BLOCK):
        at = first + tl.arange(0, BLOCK)
        real = at < tl.minimum(pid * each + each, size)
        tile = tl.load(
            rows + row.to(tl.int64)[:, None] * size + at[None, :],
            mask=(row < COUNT)[:, None] & real[None, :],
            other=0.0,
        )
        v = tl.load(image + at, mask=real, other=0.0)
        if REMOVE:
            v -= tl.sum(tile * parts[:, None], 0)
            tl.store(image + at, v, mask=real)
        if MEET:
            total += tile * v[None, :]
        else:
            total += tl.where(row == 0, 1.0, 0.0)[:, None] * (v * v)[None, :]
    tl.store(found + pid * ROWS + row, tl.sum(total, 1))
    if not MEET:
        tl.store(newest, tl.load(newest) + 1, mask=pid == 0)


@triton.jit(do_not_specialize=["size", "programs"])
def unit_program(
    rows,  # [COUNT, size]
    image,  # [size]
    along,  # [3, programs, ROWS]: what the three passes have found
    newest,  # [1]: the row that is written
    vector,  # [size]: so is this
    numbers,  # [COUNT + 1]: parts along the rows, and the length
    size,
    programs,
    COUNT: tl.constexpr,
    ROWS: tl.constexpr,
    PROGRAMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program: BLOCK elements of the vector, which gets the length one."""
    row = tl.arange(0, ROWS)
    square = tl.sum(_summed(along + 2 * programs * ROWS, programs, ROWS, PROGRAMS), 0)
    length = tl.sqrt(square)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(image + at, mask=at < size, other=0.0) / length
    tl.store(vector + at, v, mask=at < size)
    tl.store(rows + tl.load(newest) * size + at, v, mask=at < size)
    if tl.program_id(0) == 0:
        parts = _summed(along, programs, ROWS, PROGRAMS) + _summed(along + programs * ROWS, programs, ROWS, PROGRAMS)
        tl.store(numbers + row, parts, mask=row < COUNT)
        tl.store(numbers + COUNT, length)
