"""Files of a data set: found in a folder, or downloaded, checked and put there."""

import hashlib
import os
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known

CHUNK = 1 << 18
PATIENCE = 30.0  # seconds without an answer


@dataclass(frozen=True, slots=True)
class File:
    """A file as its authors publish it, and the other names under which its content is accepted."""

    name: str
    url: str
    checksum: str | None = None  # "md5:..." or "sha256:...", of the download; a copy of one's own is judged when read
    also: tuple[str, ...] = ()


def default_place() -> Place:
    """The folder that the environment variable ``COCKPIT_DATA`` names, else ``~/.cache/cockpit/data``."""
    named = os.environ.get("COCKPIT_DATA")
    return Place(Path(named).expanduser() if named else Path.home() / ".cache" / "cockpit" / "data")


def fetch(place: Place, dataset: str, files: Sequence[File], progress: Progress | None = None) -> list[Path]:
    """Paths of the files of a data set; missing ones are downloaded, if the place allows it."""
    folder = place.folder / dataset
    found = [find(folder, file) for file in files]
    missing = [file for file, path in zip(files, found, strict=True) if path is None]
    if missing and not place.download:
        raise absent(dataset, folder, missing, "downloading is switched off")
    got = {file.name: download(folder, dataset, file, progress, missing[place:]) for place, file in enumerate(missing)}
    return [path or got[file.name] for file, path in zip(files, found, strict=True)]


def find(folder: Path, file: File) -> Path | None:
    """The file, or what stands for it, if it is in the folder."""
    paths = (folder / name for name in (file.name, *file.also))
    return next((path for path in paths if path.exists()), None)


def absent(dataset: str, folder: Path, files: Sequence[File], reason: str) -> CockpitError:
    """Build the error for files that are not there: which they are, where they belong and where they come from."""
    names = ", ".join(" or ".join((file.name, *file.also)) for file in files)
    urls = ", ".join(file.url for file in files)
    return CockpitError(f"no data for {dataset!r}: {reason}; put {names} in {folder} (from {urls})")


def broken(path: Path, fact: str) -> CockpitError:
    """Build the error for a file with other content than its name promises."""
    return CockpitError(f"{path} is not what it should be: {fact}; delete it, or put a good copy there")


def download(
    folder: Path, dataset: str, file: File, progress: Progress | None = None, wanted: Sequence[File] = ()
) -> Path:
    """Download a file; it gets its name only when it is complete and its checksum is right.

    ``wanted`` are all that are missing, this one first: if it cannot be had, the others hardly can.
    """
    path = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder, prefix=f".{file.name}.", suffix=".part")
    except OSError as error:
        raise CockpitError(f"cannot write data for {dataset!r} to {folder}: {error}; name another folder") from error
    try:
        with os.fdopen(handle, "wb") as target, shown(file.name, progress) as show:
            for piece in pieces(file.url, show):
                target.write(piece)
        verify(Path(part), file)
        os.chmod(part, 0o644)  # a temporary file is readable for its owner alone
        os.replace(part, path)
    except (OSError, HTTPException) as error:
        raise absent(dataset, folder, wanted or [file], f"the download of {file.url} failed ({error})") from error
    finally:
        Path(part).unlink(missing_ok=True)
    return path


def pieces(url: str, show: Progress) -> Iterator[bytes]:
    """The content of an address, piece by piece; an answer that ends early is an error."""
    with opened(url) as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        done = 0
        while piece := answer.read(CHUNK):
            done += len(piece)
            show(done, total)
            yield piece
    if total is not None and done != total:
        raise OSError(f"{done} of {total} bytes arrived")


def opened(url: str) -> Any:
    """The answer to a request."""
    try:
        return urllib.request.urlopen(url, timeout=PATIENCE)
    except HTTPError as error:
        error.close()  # it holds a connection
        raise OSError(str(error)) from None


def verify(path: Path, file: File) -> None:
    """Raise an error if the checksum of a download is not the published one."""
    if file.checksum is None:
        return
    kind, _, expected = file.checksum.partition(":")
    with path.open("rb") as content:
        found = hashlib.file_digest(content, kind).hexdigest()
    if found != expected:
        raise CockpitError(
            f"{file.name} from {file.url} has the wrong {kind} checksum: expected {expected}, found {found}; it was "
            "deleted, try again later or get the file elsewhere"
        )


@contextmanager
def shown(name: str, progress: Progress | None) -> Iterator[Progress]:
    """What reports the progress of a download: the given function, a bar in a terminal, else nothing."""
    if progress is not None:
        yield progress
    elif not sys.stderr.isatty():
        yield lambda done, total: None
    else:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
        from rich.progress import Progress as Bars

        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
        with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(name, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)
