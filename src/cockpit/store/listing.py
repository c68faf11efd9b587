"""All runs below a folder."""

import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cockpit.core.errors import CockpitError
from cockpit.store.contents import READERS
from cockpit.store.label import label
from cockpit.store.run import StoredRun

LOSS, POINTS = "Loss", 40
PASSED_OVER = {"__pycache__", "node_modules", "site-packages"}
REMEMBERED = 5000  # runs
LINKED = 2  # levels that are searched behind a link, which may lead anywhere

_guard = threading.Lock()
_known: dict[Path, StoredRun] = {}
_told: dict[Path, tuple[int, "RunInfo"]] = {}


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
    last_step: int | None
    reached: int | None
    steps: int | None  # planned
    loss: float | None
    losses: tuple[float, ...]
    given: str = ""  # the name without a reader's label
    hidden: bool = False  # left out of lists unless all are asked for


def runs(folder: str | Path) -> list[RunInfo]:
    """List all runs in a folder and below it, the newest first; cheap to call again."""
    root = Path(folder)
    with _guard:
        there = {path.absolute(): path for path in _search(root)}
        if len(_known) > REMEMBERED:
            _known.clear()
            _told.clear()
        found = [info for path in there.values() if (info := _info(root, path)) is not None]
        return sorted(found, key=lambda info: (-(info.started or info.updated), info.id))


def _search(root: Path) -> list[Path]:
    """The folders that hold a run; also through links, as long as the run is not there already."""
    found, links = _below(root)
    there = {path.resolve() for path in found} if links else set()
    for link in links:
        for path in _below(link, LINKED)[0]:
            if path.resolve() not in there:
                there.add(path.resolve())
                found.append(path)
    return found


def _below(root: Path, levels: int | None = None) -> tuple[list[Path], list[Path]]:
    """The folders below one that hold a run, down to so many levels, and the links to folders."""
    found, links = [], []
    for place, folders, files in os.walk(root):
        here = Path(place)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in PASSED_OVER]
        links += [here / name for name in folders if os.path.islink(os.path.join(place, name))]
        if levels is not None and len(here.relative_to(root).parts) >= levels:
            folders.clear()
        if not READERS.keys().isdisjoint(files):
            found.append(here)
    return found, links


def _info(root: Path, path: Path) -> RunInfo | None:
    key = path.absolute()
    try:
        run = _known.get(key) or StoredRun(path)
        run.refresh()
    except (CockpitError, OSError):  # gone in this moment
        _known.pop(key, None)
        return None
    _known[key] = run
    version, info = _told.get(key, (-1, None))
    ident = path.relative_to(root).as_posix()
    if info is None or version != run.version:
        info = _describe(ident, path, run)
    elif (info.id, info.path, info.updated) != (ident, path, run.updated):
        info = replace(info, id=ident, path=path, updated=run.updated)
    said = label(path)
    named = said.name or info.given
    if (info.name, info.hidden) != (named, said.hidden):
        info = replace(info, name=named, hidden=said.hidden)
    _told[key] = run.version, info
    return info


def _describe(ident: str, path: Path, run: StoredRun) -> RunInfo:
    steps, started = run.metadata.get("steps"), run.metadata.get("started")
    losses = run.sample(LOSS, POINTS)
    return RunInfo(
        id=ident,
        path=path,
        name=run.name,
        given=run.given_name,
        state=run.state,
        reason=run.reason,
        started=started if isinstance(started, int | float) else None,
        updated=run.updated,
        last_step=run.last_step,
        reached=run.reached,
        steps=steps if isinstance(steps, int) else None,
        loss=losses[-1] if losses else None,
        losses=tuple(loss for loss in losses if np.isfinite(loss)),
    )
