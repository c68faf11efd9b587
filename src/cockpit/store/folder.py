"""The folder of a run: where a new one goes, and the line that says so."""

import os
import re
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path

from cockpit.core.errors import CockpitError

QUIET = "COCKPIT_QUIET"  # the environment variable that keeps the line below away
_announced: list[Path] = []  # one line a process, of its first run


def announce(folder: Path) -> None:
    """Say where the run lies and how to see it, once a process; quiet with ``COCKPIT_QUIET=1`` or in a further rank."""
    quiet = os.environ.get(QUIET, "") not in ("", "0") or os.environ.get("RANK", "0") != "0"
    if quiet or _announced:
        return
    _announced.append(folder)
    with suppress(OSError, ValueError):  # no terminal, or one that is closed; no working directory
        usual = folder.parent.absolute() == Path(os.environ.get("COCKPIT_RUNS") or "runs").absolute()
        folder = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
        where = "" if usual else f" {shlex.quote(str(folder.parent))}"
        print(f"cockpit records to {folder}; see it live: cockpit ui{where}", file=sys.stderr, flush=True)


def choose_folder(run: str | Path | bool | None, name: str) -> Path | None:
    """The folder of a run: as given, by default ``runs/<time>-<name>`` ($COCKPIT_RUNS for runs); None: memory only."""
    if run is False:
        return None
    if run is None or run is True:
        parent = Path(os.environ.get("COCKPIT_RUNS") or "runs")
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{re.sub('[^A-Za-z0-9_.-]+', '_', name)}"
        return _unused(parent, stem)
    if not isinstance(run, str | os.PathLike):
        raise CockpitError(f"run is {run!r}; give a folder, or False to keep the run in memory only")
    if not str(run).strip():
        raise CockpitError("run is an empty text; give a folder, or False to keep the run in memory only")
    return Path(run).expanduser()


def _unused(parent: Path, stem: str) -> Path:
    """Two runs may start in the same second: the folder is made here, so that each gets its own."""
    for number in range(1, 1000):
        folder = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
        except OSError:
            return folder  # the store says what is wrong with it
    return parent / stem
