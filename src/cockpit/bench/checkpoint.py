"""What a run leaves on disk beside its records: the result, and until it is complete the state to go on from."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from cockpit.core.errors import CockpitError
from cockpit.core.plain import plain
from cockpit.core.writing import refusing, whole
from cockpit.results import folder as results
from cockpit.results.result import Result
from cockpit.store.lock import Busy, Lock, Pulse, host

ROOM = ".resume"  # hidden, so that no list of runs looks into it
STATE = "state.pt"
_MARKED = {"code": "optimizer", "problem_code": "problem"}  # marks of a user's code, and what they are of


def read_result(folder: Path) -> Result | None:
    """Read the result of a run; None if there is none."""
    return results.read(folder) if (folder / results.NAME).is_file() else None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder; what a killed one left half written is removed."""
    room = folder / ROOM
    with refusing(folder):
        room.mkdir(parents=True, exist_ok=True)
    try:
        held = Lock(room)
    except Busy as error:
        raise CockpitError(f"{folder} is being written by {error}; wait for it, or choose another --out") from None
    try:
        held.beat(Pulse(0, os.getpid(), host(), time.time()))
        for part in (*room.glob(".*.part*"), *folder.glob(".*.part.json")):
            with suppress(OSError):
                part.unlink()
        yield
    finally:
        held.close()


def save(folder: Path, state: Mapping[str, Any]) -> None:
    """Keep the state of a run, in place of the one before."""
    path = folder / ROOM / STATE
    with refusing(path), whole(path) as part, part.open("wb") as file:
        torch.save(dict(state), file)
        file.flush()
        os.fsync(file.fileno())


def load(folder: Path) -> dict[str, Any] | None:
    """Read the state that a run is to go on from; None if there is none."""
    path = folder / ROOM / STATE
    if not path.is_file():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a file that is torn or foreign
        raise CockpitError(
            f"{path} cannot be read ({type(error).__name__}: {str(error).splitlines()[0]}); begin again with --again"
        ) from error
    if not isinstance(state, dict):
        raise CockpitError(f"{path} is not the state of a run; begin again with --again")
    return state


def begun(folder: Path) -> bool:
    """Whether a run has left a result or a state; neither is read."""
    return (folder / results.NAME).is_file() or (folder / ROOM / STATE).is_file()


def remove(folder: Path) -> None:
    """Forget the state."""
    (folder / ROOM / STATE).unlink(missing_ok=True)


def clear(folder: Path) -> None:
    """Forget the state and the result of an earlier run, so that nobody takes them for those of the next one."""
    remove(folder)
    (folder / results.NAME).unlink(missing_ok=True)


def fit(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse what was kept of a run with other settings."""
    found, wanted = plain(found), plain(wanted)
    known = [key for key in wanted if key != "problem_code" or found.get(key)]  # which older results do not have
    differing = [key for key in known if found.get(key) != wanted[key]]
    if differing:
        told = "; ".join(_told(key, found.get(key), wanted) for key in differing)
        raise CockpitError(
            f"{folder} holds a run with other settings: {told}; give the same settings, another --out, or --again"
        )


def _told(key: str, found: Any, wanted: Mapping[str, Any]) -> str:
    if key in _MARKED:
        name = wanted[_MARKED[key]]
        return f"the code of {name} was another (mark {found or 'none'}, now {wanted[key] or 'none'})"
    if key == "rule":
        old, new = (f"version {one}" if one else "torch's" for one in (found, wanted[key]))
        return f"the rule of {wanted['optimizer']} was {old}, is {new}"
    return f"{key} was {found!r}, is {wanted[key]!r}"
