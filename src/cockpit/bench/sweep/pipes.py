"""Messages between a sweep and its workers: pickled objects in a stream of bytes, each with its length in front."""

import pickle
import struct
from dataclasses import dataclass
from typing import IO, Any

READY = "ready"  # a worker can be given work
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Over:
    """A parcel is over."""

    number: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """The run of a parcel has been trained for some epochs."""

    trained: int
    epochs: int


@dataclass(frozen=True, slots=True)
class End:
    """A worker has ended."""

    reason: str
    ready: bool  # whether it had begun to work before


def write(stream: IO[bytes], message: Any) -> None:
    """Send a message."""
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read(stream: IO[bytes]) -> Any:
    """Receive a message; EOFError where the other side has ended."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return pickle.loads(_exactly(stream, length))


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data
