"""The IDX format of MNIST: arrays of bytes behind a short header, gzipped or not."""

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cockpit.problems.data.fetch import broken

BYTES = 0x08  # the code of unsigned bytes


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in a file; gzip is recognised by its content."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise broken(path, f"it cannot be unzipped ({error})") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != BYTES:
        raise broken(path, f"it begins with {content[:4].hex() or 'nothing'} instead of 000008 and a number of axes")
    start = 4 + 4 * content[3]
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
    if len(shape) != content[3] or len(content) != start + prod(shape):
        raise broken(path, f"its header says {shape}, but {len(content) - start} bytes follow")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    """Write an array, gzipped if the name ends in ``.gz``."""
    header = bytes([0, 0, BYTES, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
