"""One way to read a run, whatever it is given as: a folder, a log, a dictionary, a live object."""

import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cockpit.core.errors import CockpitError
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.core.source import Source
from cockpit.plots import log
from cockpit.store import RunInfo, runs
from cockpit.store.run import StoredRun
from cockpit.store.table import Table, table

FOLDER = "COCKPIT_RUNS"  # the environment variable that names the folder of all runs
UNREADABLE = "unreadable"  # the state of a run of which nothing can be read
LISTED = 8  # names in a message


class Log(Recorded):
    """A run of which only the paper's JSON log is left, or its dictionary."""

    state = "log"  #: neither running nor known to have ended
    reason: str | None = None

    def __init__(self, steps: log.Steps, name: str, path: Path | None = None) -> None:
        self.path = path
        self._read = list(log.records(steps))
        super().__init__(self._read, name)

    def records(self) -> Iterator[Record]:
        """All records."""
        return iter(self._read)

    def output(self) -> dict[int, dict[str, Any]]:
        """Return ``{step: {name: value}}``."""
        found: dict[int, dict[str, Any]] = {}
        for record in self._read:
            found.setdefault(record.step, {})[record.name] = record.value
        return found

    def table(self, name: str | None = None) -> Table:
        """See :meth:`StoredRun.table <cockpit.store.run.StoredRun.table>`."""
        return table(self, name)

    def refresh(self) -> bool:
        """A log is read once."""
        return False


def read(source: Any) -> Source:
    """Return the run behind ``source``."""
    if isinstance(source, str | Path):
        return from_path(source)
    if isinstance(source, Mapping):
        return Log(log.steps(source, "the dictionary"), "cockpit")
    if callable(getattr(source, "scalar", None)) and callable(getattr(source, "histogram", None)):
        return source  # type: ignore[no-any-return]
    if callable(getattr(source, "source", None)):
        return read(source.source())
    if callable(getattr(source, "get_output", None)):
        return Log(log.steps(source.get_output(), f"the output of {type(source).__name__}"), "cockpit")
    raise CockpitError(
        f"source is {type(source).__name__}; give the path of a run or a log, its dictionary, or the object that "
        "watched the training"
    )


def from_path(given: str | Path) -> StoredRun | Log:
    """Open a run folder, its database file, or a JSON log with or without its suffix."""
    path = Path(given).expanduser()
    if StoredRun.at(path):
        return _readable(StoredRun(path))
    found = log.locate(path)
    if found is not None:
        name = found.parent.name if found.name == log.RUN_FILE else found.name.removesuffix(".json")
        return Log(log.parse(found), name, found)
    raise _nothing(path)


def _readable(run: StoredRun) -> StoredRun:
    """The run, unless nothing of it can be read."""
    if run.damaged is not None and not run.kinds and run.state != "running":
        hint = "" if "not a cockpit run" in run.damaged else "; copy the whole folder again, if it is a copy"
        raise CockpitError(f"nothing of {run.path} can be read: {run.damaged}{hint}")
    return run


def runs_folder(given: str | Path | None = None) -> Path:
    """The folder of all runs: as given, else ``$COCKPIT_RUNS``, else ``runs``."""
    return Path(given or os.environ.get(FOLDER) or "runs").expanduser()


def chosen(given: Path | None, everything: bool = False) -> StoredRun | Log | list[RunInfo]:
    """The run that is meant: the newest of all if none is named; several if a folder with several is named."""
    if given is not None and (StoredRun.at(given) or not given.is_dir() or log.locate(given) is not None):
        return from_path(given)
    folder = runs_folder(given)
    there = runs(folder)
    found = [info for info in there if everything or not info.hidden]
    if there and not found:
        raise CockpitError(f"all {len(there)} runs below {folder} are hidden; see them with `cockpit show --all`")
    if not found and given is None:
        raise CockpitError(
            f"no run below {folder.absolute()}; name one, or start one: cockpit.watch(model, optimizer, loss_fn)"
        )
    if not found:
        raise _nothing(folder)
    sound = [info for info in found if info.state != UNREADABLE]
    if sound and (given is None or len(found) == 1):
        return _readable(StoredRun(sound[0].path))
    return found


def single(given: Path | None) -> StoredRun | Log:
    """The run that is meant, where only one will do."""
    found = chosen(given)
    if isinstance(found, list):
        names = ", ".join(str(info.path) for info in found[:LISTED])
        more = " and more" if len(found) > LISTED else ""
        raise CockpitError(f"{given} holds {len(found)} runs; name one of them: {names}{more}")
    return found


def file_name(run: Source) -> str:
    """The run's name as part of a file's name."""
    plain = "".join(letter if letter.isalnum() or letter in "-_.+=" else "_" for letter in run.name)
    return plain.lstrip(".") or "run"


def _nothing(path: Path) -> CockpitError:
    if path.is_dir():
        return CockpitError(f"{path} is not a run: it holds neither a run's database nor {log.RUN_FILE}{_near(path)}")
    if path.exists():
        return CockpitError(f"{path} is not a run: neither a run's database nor a JSON log; give a run's folder")
    also = "".join(f" nor {option}" for option in log.candidates(path) if option not in (path, path / log.RUN_FILE))
    return CockpitError(f"{path} does not exist{also and f', {also[1:]}'}{_near(path.parent, path.name)}")


def _near(folder: Path, name: str | None = None) -> str:
    """What else lies there: the nearest names, or the runs in a folder that is not one itself."""
    there = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if name is None:
        below = [str(info.path) for info in runs(folder)]
        return f"; it contains runs: {', '.join(below[:LISTED])}" if below else "; give a folder made by cockpit.watch"
    near = get_close_matches(name, there, n=3, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(repr(str(folder / match)) for match in near)}?"
    return "; give the folder of a run, or the path that was passed to Cockpit.write"
