"""All runs below a folder."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cockpit.core.errors import CockpitError
from cockpit.store import lock, sqlite
from cockpit.store.backend import Signature, stamp
from cockpit.store.contents import READERS
from cockpit.store.label import NAME as LABEL
from cockpit.store.label import label
from cockpit.store.run import StoredRun
from cockpit.store.sqlite_access import LOG

LOSS, POINTS = "Loss", 40
PASSED_OVER = {"__pycache__", "node_modules", "site-packages"}
GROWING = ("running", "stale")  # states that may change though no file does
LINKED = 2  # levels that are searched behind a link, which may lead anywhere

_guard = threading.Lock()
_known: dict[str, "_Known"] = {}  # by absolute path
FILES = (sqlite.NAME, sqlite.NAME + LOG, lock.NAME, LABEL, *(name for name in READERS if name != sqlite.NAME))


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a list of runs shows about one of them."""

    id: str  # path below the folder, with slashes; "." for the folder itself
    path: Path
    name: str
    state: str
    reason: str | None
    started: float | None
    updated: float
    last_step: int | None  # with a record
    reached: int | None
    step: int | None  # the last that was taken
    steps: int | None  # planned
    loss: float | None
    losses: tuple[float, ...]
    damaged: str | None  # as far as it is known without reading everything
    given: str = ""  # the name without a reader's label
    hidden: bool = False  # left out of lists unless all are asked for


@dataclass(slots=True)
class _Known:
    """What the last look at a folder showed; the run itself is kept only while it may grow."""

    root: Path
    files: Signature
    info: RunInfo
    run: StoredRun | None
    version: int


def runs(folder: str | Path) -> list[RunInfo]:
    """List all runs in a folder and below it, the newest first; cheap to call again."""
    root = Path(folder)
    with _guard:
        there = dict(_search(root))
        under = os.path.join(root.absolute(), "")
        for gone in [path for path in _known if path not in there and path.startswith(under)]:
            del _known[gone]
        found = [info for key, ident in there.items() if (info := _info(root, key, ident)) is not None]
    return sorted(found, key=lambda info: (-(info.started or info.updated), info.id))


def _search(root: Path) -> Iterator[tuple[str, str]]:
    """The folders that hold a run, and their paths below the root; also through links to runs not there already."""
    links: list[tuple[str, str]] = []
    found = list(_below((str(root.absolute()), ""), links))
    yield from found
    there = {os.path.realpath(place) for place, _ in found} if links else set()
    here = os.path.join(os.path.realpath(root), "")
    for link in links:
        if here.startswith(os.path.join(os.path.realpath(link[0]), "")):
            continue  # it leads back
        for place, ident in _below(link, [], LINKED):
            real = os.path.realpath(place)
            if real not in there:
                there.add(real)
                yield place, ident


def _below(top: tuple[str, str], links: list[tuple[str, str]], levels: int | None = None) -> Iterator[tuple[str, str]]:
    """The folders below one that hold a run, down to so many levels; links to folders are collected."""
    waiting = [(*top, levels)]
    while waiting:
        place, ident, left = waiting.pop()
        try:
            with os.scandir(place) as found:
                entries = list(found)
        except OSError:
            continue
        if not READERS.keys().isdisjoint([entry.name for entry in entries]):
            yield place, ident or "."
        for entry in entries:
            if entry.name.startswith(".") or entry.name in PASSED_OVER or entry.name in READERS or left == 0:
                continue
            below = f"{ident}/{entry.name}" if ident else entry.name
            if _is_folder(entry):
                waiting.append((entry.path, below, None if left is None else left - 1))
            elif entry.is_symlink() and os.path.isdir(entry.path):
                links.append((entry.path, below))


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _info(root: Path, key: str, ident: str) -> RunInfo | None:
    known, files = _known.get(key), tuple(stamp(f"{key}/{name}") for name in FILES)
    if known is None or known.files != files or known.info.state in GROWING or known.root != root:
        try:
            known = _known[key] = _looked(known, root, files, ident)
        except (CockpitError, OSError):  # gone in this moment
            _known.pop(key, None)
            return None
    return known.info


def _looked(known: _Known | None, root: Path, files: Signature, ident: str) -> _Known:
    path, run = root / ident, known.run if known is not None else None
    if known is not None and known.files == files and known.info.state not in GROWING:  # asked for by another name
        return replace(known, root=root, info=replace(known.info, id=ident, path=path))
    if run is None:
        run = StoredRun(path)
    else:
        run.refresh()
    if known is not None and known.run is run and known.version == run.version and known.root == root:
        info = replace(known.info, updated=run.updated)
    else:
        info = _describe(ident, path, run)
    said = label(path)
    info = replace(info, name=said.name or info.given, hidden=said.hidden)
    return _Known(root, files, info, run if info.state in GROWING else None, run.version)


def _describe(ident: str, path: Path, run: StoredRun) -> RunInfo:
    steps, started = run.metadata.get("steps"), run.metadata.get("started")
    losses = run.sample(LOSS, POINTS)
    return RunInfo(
        id=ident,
        path=path,
        name=run.given_name,
        given=run.given_name,
        state=run.state,
        reason=run.reason,
        started=started if isinstance(started, int | float) else None,
        updated=run.updated,
        last_step=run.last_step,
        reached=run.reached,
        step=run.step,
        steps=steps if isinstance(steps, int) else None,
        loss=losses[-1] if losses else None,
        losses=tuple(loss for loss in losses if np.isfinite(loss)),
        damaged=run.trouble,
    )
