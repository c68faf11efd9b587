"""Files and JSON that nobody vouches for: read within bounds of size, depth and kind, or refused with the reason."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np

from cockpit.core.errors import CockpitError

LARGEST = 64 << 20  # bytes of JSON
MOST = 2_000_000  # values in it: each takes about 60 bytes in memory
DEEPEST = 64  # levels: far below what Python's own recursion allows
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_TEXT = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)', re.DOTALL)  # one that never ends, too: else it took quadratic time
_LONG = re.compile(rb"\d{300}")  # no float is as large
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


class Refused(CockpitError):
    """What was read is not what it should be."""


def odd_kind(path: Path) -> str | None:
    """What lies there instead of a regular file, in words; None for a regular file, or where there is nothing."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    return None if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "no regular file")


def opened(path: Path) -> int:
    """Open a regular file for reading and return its descriptor; a pipe would wait for a writer, so it is refused."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise Refused(f"{path.name} is {KINDS.get(stat.S_IFMT(mode), 'no regular file')}, not a file")
    return file


def content(path: Path, most: int = LARGEST) -> bytes:
    """Read a whole regular file of at most so many bytes."""
    with open(opened(path), "rb") as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise Refused(f"{path.name} is larger than {most >> 20} MiB")
    return found


def parsed(data: bytes | str, largest: int = LARGEST, most: int | None = MOST) -> Any:
    """Read JSON; what is too large, too deep or no JSON is refused. Whole numbers beyond 300 digits become infinite."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > largest:
        raise Refused(f"the JSON has {len(raw)} bytes, more than {largest >> 20} MiB")
    if most is not None and raw.count(b",") + raw.count(b"[") + raw.count(b"{") > most:
        raise Refused(f"the JSON has more than {most} values")
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _depth(raw) > DEEPEST:
        raise Refused(f"the JSON is nested deeper than {DEEPEST} levels")
    try:
        if _LONG.search(raw):
            return json.loads(data, parse_int=_whole)
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON ({error})") from None


def _depth(raw: bytes) -> int:
    brackets = np.frombuffer(_TEXT.sub(b"", raw).translate(None, _OTHERS), np.uint8)
    opens = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.cumsum(np.where(opens, 1, -1)).max(initial=0))


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < 300 else float(digits)
