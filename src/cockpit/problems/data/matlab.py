"""MATLAB's level 5 files, as far as they hold arrays of numbers."""

import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.problems.data.fetch import broken

HEADER = 128
ORDERS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}  # of bytes, by how the header ends
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15


def read_mat(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays in a file by name; an axis that MATLAB counts first is first."""
    content = path.read_bytes()
    order = ORDERS.get(content[HEADER - 4 : HEADER])
    if order is None:
        raise broken(path, "it has no header of a MATLAB 5 file")
    try:
        return dict(arrays(memoryview(content)[HEADER:], order))
    except (ValueError, IndexError, KeyError, UnicodeDecodeError, zlib.error) as error:
        raise broken(path, f"it cannot be read as MATLAB 5 ({error})") from error


def arrays(content: memoryview, order: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Names and values of the matrices in a row of elements."""
    for kind, data in elements(content, order):
        if kind == COMPRESSED:
            yield from arrays(memoryview(zlib.decompress(data)), order)
        elif kind == MATRIX:
            _, (_, shape), (_, name), (number, values) = list(elements(data, order))[:4]  # flags, then these
            sizes = tuple(int(size) for size in np.frombuffer(shape, order + "i4"))
            found = np.frombuffer(values, order + NUMBERS[number])
            if len(found) != prod(sizes):
                raise ValueError(f"{len(found)} numbers for an array of {sizes}")
            yield bytes(name).decode("ascii"), found.reshape(sizes, order="F")


def elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Kind and data of each element: a tag of eight bytes, then data, or up to four bytes within the tag."""
    while len(content) >= 8:
        kind, size = (int(word) for word in np.frombuffer(content[:8], order + "u4"))
        if kind >> 16:
            kind, size, start, step = kind & 0xFFFF, kind >> 16, 4, 8
        else:
            start = 8
            step = 8 + size + (0 if kind == COMPRESSED else -size % 8)
        if start + size > len(content):
            raise ValueError(f"an element of {size} bytes ends after {len(content) - start}")
        yield kind, content[start : start + size]
        content = content[step:]


def write_mat(path: Path, named: dict[str, NDArray[Any]]) -> None:
    """Write arrays of bytes, each compressed."""

    def element(kind: int, data: bytes) -> bytes:
        return np.array([kind, len(data)], "<u4").tobytes() + data + bytes(-len(data) % 8)

    def matrix(name: str, array: NDArray[Any]) -> bytes:
        flags = element(6, np.array([9, 0], "<u4").tobytes())  # 9: an array of unsigned bytes
        shape = element(5, np.array(array.shape, "<i4").tobytes())
        values = element(2, array.astype(np.uint8).tobytes(order="F"))
        return element(MATRIX, flags + shape + element(1, name.encode("ascii")) + values)

    packed = [zlib.compress(matrix(name, array)) for name, array in named.items()]
    rows = [np.array([COMPRESSED, len(data)], "<u4").tobytes() + data for data in packed]
    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    path.write_bytes(header + b"".join(rows))
