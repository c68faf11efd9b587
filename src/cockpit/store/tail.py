"""The tail of a frame: chunks of bytes for what is not a number, packed small."""

import json
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH = struct.Struct("<I")
LEAST = 5  # bytes of a tail: checksum, and how it is packed
SMALL = 256  # bytes: packing saves a few of them, and stops and starts the thread, which delays training
LARGE = 1 << 20  # raw parameter values: they hardly shrink, and packing them takes long
INTEGER_HEAD = struct.Struct("<BI")  # bytes of each, number of them
KINDS = "biufcUS"  # of arrays: numbers and texts, no objects
INTEGERS = {size: np.dtype(f"<u{size}") for size in (1, 2, 4, 8)}


def join(chunks: list[bytes]) -> bytes | None:
    """Pack chunks into one tail, with a checksum; None if there are none."""
    if not chunks:
        return None
    body = b"".join([part for chunk in chunks for part in (LENGTH.pack(len(chunk)), chunk)])
    packed = b"\1" + zlib.compress(body) if SMALL < len(body) <= LARGE else b"\0" + body
    return LENGTH.pack(zlib.crc32(packed)) + packed


def sound(tail: bytes | None) -> bool:
    """Whether a tail is as it was written."""
    if tail is None:
        return True
    return len(tail) >= LEAST and LENGTH.unpack_from(tail)[0] == zlib.crc32(memoryview(tail)[4:])


def split(tail: bytes | None) -> list[bytes]:
    """Unpack a tail; raises ValueError if it is damaged."""
    if tail is None:
        return []
    if not sound(tail):
        raise ValueError("the checksum of a record does not match")
    body = _unpacked(tail[LEAST:]) if tail[4] else tail[LEAST:]
    chunks, at = [], 0
    while at < len(body):
        (length,) = LENGTH.unpack_from(body, at)
        chunks.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    return chunks


def _unpacked(packed: bytes) -> bytes:
    """Nothing larger than ``LARGE`` is ever packed; what unpacks to more is none of ours."""
    unpacker = zlib.decompressobj()
    body = unpacker.decompress(packed, LARGE + 1)
    if len(body) > LARGE or not unpacker.eof:
        raise ValueError("a record unpacks to more than it may")
    return body


def pack_array(array: NDArray[Any]) -> bytes:
    """An array with its type and shape."""
    return json.dumps([array.dtype.str, array.shape]).encode() + b"\n" + np.ascontiguousarray(array).tobytes()


def unpack_array(chunk: bytes) -> NDArray[Any]:
    """The inverse of :func:`pack_array`."""
    head, _, body = chunk.partition(b"\n")
    dtype, shape = json.loads(head)
    kind = np.dtype(dtype)
    if kind.kind not in KINDS or kind.itemsize == 0:
        raise ValueError(f"an array of {dtype}")
    return np.frombuffer(body, dtype=kind).reshape(shape).copy()


def pack_sparse(places: NDArray[np.int64], counts: NDArray[Any]) -> bytes:
    """Filled bins, as distances from one to the next, and their counts."""
    distances = places.copy()
    distances[1:] -= places[:-1]  # np.diff takes several times as long for a few bins
    return _pack_integers(distances) + _pack_integers(counts)


def unpack_sparse(chunk: bytes) -> tuple[NDArray[np.int64], NDArray[Any], bytes]:
    """The inverse of :func:`pack_sparse`, and what follows in the chunk."""
    distances, rest = _unpack_integers(chunk)
    counts, rest = _unpack_integers(rest)
    return np.cumsum(distances, dtype=np.int64), counts, rest


def _pack_integers(values: NDArray[Any]) -> bytes:
    head, dtype = INTEGER_HEAD.pack, values.dtype if values.dtype == np.uint8 else _narrowest(values)
    if dtype.itemsize == 1:
        return head(1, len(values)) + values.astype(dtype, copy=False).tobytes()
    # All low bytes first, then all higher ones, which are mostly zero: shrinks better.
    planes = values.astype(dtype).view(np.uint8).reshape(len(values), dtype.itemsize).T
    return head(dtype.itemsize, len(values)) + planes.tobytes()


def _narrowest(values: NDArray[Any]) -> np.dtype[Any]:
    largest = int(values.max()) if len(values) else 0
    return INTEGERS[1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4 if largest < 1 << 32 else 8]


def _unpack_integers(chunk: bytes) -> tuple[NDArray[Any], bytes]:
    size, length = INTEGER_HEAD.unpack_from(chunk)
    end = 5 + size * length
    planes = np.frombuffer(chunk[5:end], dtype=np.uint8).reshape(size, length)
    return np.ascontiguousarray(planes.T).view(INTEGERS[size]).reshape(length), chunk[end:]
