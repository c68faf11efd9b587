"""The two published forms of CIFAR, binary records and pickled arrays, in an archive or as a folder."""

import io
import pickle
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.problems.data.fetch import broken

PIXELS = 3 * 32 * 32
Part = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # pixels [N, 3072] and labels [N]


def read_cifar(path: Path, names: list[str], labels: int) -> Part:
    """Pixels and the last label of every record in the named files.

    Args:
        path: The archive or the folder, of either form.
        names: Files in it, without ``.bin``.
        labels: Labels before each image: 1 in CIFAR-10, 2 (coarse, fine) in CIFAR-100.
    """
    parts = [read_part(path, *named, labels) for named in contents(path, names)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def contents(path: Path, names: list[str]) -> list[tuple[str, bytes]]:
    """Name and content of the named files in an archive or folder."""
    wanted = {end for name in names for end in (name, f"{name}.bin")}
    if path.is_dir():
        found = {file.name: file.read_bytes() for file in path.iterdir() if file.name in wanted}
    else:
        found = unpacked(path, wanted)
    missing = [name for name in names if name not in found and f"{name}.bin" not in found]
    if missing:
        raise broken(path, f"it does not hold {', '.join(missing)}")
    return [(name, found[name]) if name in found else (f"{name}.bin", found[f"{name}.bin"]) for name in names]


def unpacked(path: Path, wanted: set[str]) -> dict[str, bytes]:
    """The wanted files of an archive, read without extracting anything."""
    found = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if name in wanted and (file := archive.extractfile(member)) is not None:
                    found[name] = file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise broken(path, f"it cannot be unpacked ({error})") from error
    return found


def read_part(path: Path, name: str, content: bytes, labels: int) -> Part:
    """Pixels and labels of one file."""
    if not name.endswith(".bin"):
        return read_pickle(path, name, content)
    if not content or len(content) % (labels + PIXELS):
        raise broken(path, f"the {len(content)} bytes of {name} are no whole number of {labels + PIXELS}-byte records")
    records = np.frombuffer(content, np.uint8).reshape(-1, labels + PIXELS)
    return records[:, labels:], records[:, labels - 1]


def read_pickle(path: Path, name: str, content: bytes) -> Part:
    """Pixels and labels of one pickled file."""
    try:
        loaded = Plain(io.BytesIO(content), encoding="bytes").load()
        fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in loaded.items()}
        labels = fields["fine_labels"] if "fine_labels" in fields else fields["labels"]
        pixels = np.asarray(fields["data"], np.uint8).reshape(-1, PIXELS)
        return pixels, np.asarray(labels, np.uint8).reshape(len(pixels))
    except (pickle.UnpicklingError, AttributeError, EOFError, KeyError, ValueError, TypeError) as error:
        raise broken(path, f"{name} is no pickled batch of images ({error!r})") from error


class Plain(pickle.Unpickler):
    """Reads pickled containers and numpy arrays, and runs nothing else."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        """What a pickled array is made with."""
        rebuild = np.empty(0).__reduce__()[0]
        made: dict[str, Any] = {"_reconstruct": rebuild, "ndarray": np.ndarray, "dtype": np.dtype}
        if module.split(".")[0] == "numpy" and name in made:
            return made[name]  # type: ignore[no-any-return]
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            import codecs

            return codecs.encode
        raise pickle.UnpicklingError(f"{module}.{name} is not part of an array")
