"""How a value is taken apart: a node says its shape, numbers go to columns, the rest goes to chunks.

Nodes are plain tuples and strings, so that they can be compared and written as JSON:

======================  ==============================================================
``"f"  "i"  "b"``       a float, an integer, a truth value: one column
``("F", key, ...)``     a dictionary of floats: one column each
``("d", (key, node))``  any other dictionary
``("c", word)``         a constant: a short text or None
``("h", bins, names)``  a histogram with equal bins: low and high of each axis, a chunk
``("H", bins, names)``  a histogram with other bins: a chunk
``"a"  "j"``            an array, anything else as JSON: a chunk
``"s"``                 a float for each of several steps: all columns, as many as there are
======================  ==============================================================
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from numbers import Real
from typing import Any

import numpy as np

from cockpit.core.histogram import Histogram
from cockpit.store import tail

Node = Any
COURSE = "s"  # the only record of its frame, whose step is the last of them
LARGE = 1000  # bits; larger integers are no floats
SHORT = 80
NAME = 10_000  # characters of a name
BINS, CELLS = 1 << 22, 1 << 25  # of one histogram: bins, and counts of all parameters


def take(value: Any, numbers: list[float], chunks: list[bytes], words: bool) -> Node:
    """Take a value apart; ``words``: short texts are constants of the node."""
    if type(value) is float:
        numbers.append(value)
        return "f"
    if isinstance(value, Mapping):
        return _take_mapping(value, numbers, chunks, words)
    if value is None or (isinstance(value, str) and words and len(value) <= SHORT):
        return ("c", value)
    if isinstance(value, Histogram):
        return _take_histogram(value, numbers, chunks)
    if isinstance(value, np.ndarray) and value.dtype.kind in tail.KINDS and value.dtype.itemsize:
        chunks.append(tail.pack_array(value))
        return "a"
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if isinstance(value, int):
        if value.bit_length() < LARGE and int(float(value)) == value:
            numbers.append(float(value))
            return "b" if isinstance(value, bool) else "i"
    elif isinstance(value, Real):
        numbers.append(float(value))
        return "f"
    chunks.append(json.dumps(value, default=_plain).encode())
    return "j"


def _take_mapping(value: Mapping[Any, Any], numbers: list[float], chunks: list[bytes], words: bool) -> Node:
    if not all(isinstance(key, str) for key in value):
        chunks.append(json.dumps({str(key): entry for key, entry in value.items()}, default=_plain).encode())
        return "j"
    if value and all(type(entry) is float for entry in value.values()):
        numbers.extend(value.values())
        return ("F", *value)
    return ("d", *((key, take(entry, numbers, chunks, words)) for key, entry in value.items()))


def _take_histogram(value: Histogram, numbers: list[float], chunks: list[bytes]) -> Node:
    names, places, counts = value.sparse()
    chunk = tail.pack_sparse(places, counts)
    limits = [_limits(edges.tobytes()) if edges.dtype == np.float64 else () for edges in value.edges]
    if all(limits):
        for pair in limits:
            numbers.extend(pair)
        chunks.append(chunk)
        return ("h", value.shape, names)
    chunks.append(chunk + tail.join([tail.pack_array(np.asarray(edges)) for edges in value.edges]))  # type: ignore[operator]
    return ("H", value.shape, names)


@lru_cache(maxsize=256)
def _limits(data: bytes) -> tuple[float, ...]:
    """Low and high of equal bins; nothing of other bins."""
    edges = np.frombuffer(data)
    if len(edges) < 2 or not np.isfinite(edges).all():
        return ()
    low, high = float(edges[0]), float(edges[-1])
    with np.errstate(all="ignore"):  # edges may be as far apart as numbers can be
        return (low, high) if np.linspace(low, high, len(edges)).tobytes() == data else ()


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def check(node: Node) -> None:
    """Whether this is a node: ``ValueError`` if not, or if its histogram has more bins than memory holds."""
    match node:
        case "f" | "i" | "b" | "a" | "j" | "s" | ["c", None] | ["c", str()]:
            return
        case ["F", *keys] if all(map(_named, keys)):
            return
        case ["d", *entries]:
            for key, entry in entries:
                if not _named(key):
                    raise ValueError("no name")
                check(entry)
            return
        case ["h" | "H", [*bins], [*names]] if all(type(count) is int and 0 < count <= BINS for count in bins):
            if bins and prod(bins) <= BINS and prod(bins) * len(names) <= CELLS and all(map(_named, names)):
                return
    raise ValueError("no node")


def _named(key: Any) -> bool:
    return isinstance(key, str) and len(key) <= NAME


def give(node: Node, numbers: Iterator[float], chunks: Iterator[bytes]) -> Any:
    """Put a value together again."""
    match node:
        case "f":
            return next(numbers)
        case "i":
            return int(next(numbers))
        case "b":
            return bool(next(numbers))
        case "a":
            return tail.unpack_array(next(chunks))
        case "j":
            return json.loads(next(chunks))
        case ["F", *keys]:
            return {key: next(numbers) for key in keys}
        case ["d", *entries]:
            return {key: give(entry, numbers, chunks) for key, entry in entries}
        case ["c", word]:
            return word
    return _give_histogram(node, numbers, next(chunks))


def _give_histogram(node: Node, numbers: Iterator[float], chunk: bytes) -> Histogram:
    what, bins, names = node
    places, counts, rest = tail.unpack_sparse(chunk)
    if what == "h":
        with np.errstate(all="ignore"):
            edges = tuple(np.linspace(next(numbers), next(numbers), count + 1) for count in bins)
    else:
        edges = tuple(tail.unpack_array(part) for part in tail.split(rest))
    inside = prod(bins) * len(names)
    if len(places) != len(counts) or (len(places) and not 0 <= places.min() <= places.max() < inside):
        raise ValueError("a histogram whose counts lie outside its bins")
    if [len(edge) - 1 for edge in edges] != list(bins):
        raise ValueError("a histogram whose edges do not fit its bins")
    return Histogram.from_sparse(edges, tuple(names), places, counts)


def size(node: Node) -> tuple[int, int]:
    """How many columns and how many chunks a node takes."""
    match node:
        case "f" | "i" | "b":
            return 1, 0
        case "a" | "j":
            return 0, 1
        case ["F", *keys]:
            return len(keys), 0
        case ["d", *entries]:
            sizes = [size(entry) for _, entry in entries]
            return sum(columns for columns, _ in sizes), sum(chunks for _, chunks in sizes)
        case "s" | ["c", _]:
            return 0, 0
        case ["h", bins, _]:
            return 2 * len(bins), 1
    return 0, 1


def columns(node: Node, first: int = 0) -> Any:
    """The same shape with the number of its column at each leaf; None where there is no single number."""
    match node:
        case "f" | "i" | "b":
            return first
        case ["F", *keys]:
            return {key: first + place for place, key in enumerate(keys)}
        case ["d", *entries]:
            found = {}
            for key, entry in entries:
                found[key] = columns(entry, first)
                first += size(entry)[0]
            return found
    return None
