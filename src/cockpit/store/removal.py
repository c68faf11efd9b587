"""Deleting a run: the files that recording has written, and nothing else that lies beside them."""

from contextlib import suppress
from pathlib import Path

from cockpit.core.errors import CockpitError
from cockpit.store import framed, label, lock, sqlite
from cockpit.store.run import StoredRun

OWN = (
    *(sqlite.NAME, f"{sqlite.NAME}-wal", f"{sqlite.NAME}-shm", f"{sqlite.NAME}-journal"),
    *(framed.NAME, "start.pt", "start.part", label.NAME, lock.NAME),  # the lock last: until then nobody else writes
)


def delete(folder: str | Path) -> list[Path]:
    """Delete a run's records; a folder that is then empty goes too. What else lies in it stays, and is returned.

    A run that is being written is refused.
    """
    place = Path(folder)
    if not StoredRun.at(place):
        raise CockpitError(f"{place} holds no run; give the folder of one")
    try:
        held = lock.Lock(place)
    except lock.Busy as error:
        raise CockpitError(f"{place} is being written by {error}; stop that training first") from None
    except OSError as error:
        raise CockpitError(f"{place} cannot be deleted: {error.strerror or error}; look at its permissions") from error
    try:
        for name in OWN:
            (place / name).unlink(missing_ok=True)
    except OSError as error:
        raise CockpitError(f"{place} cannot be deleted: {error.strerror or error}; look at its permissions") from error
    finally:
        held.close()
    rest = sorted(place.iterdir())
    if not rest:
        target = place.resolve()
        with suppress(OSError):
            place.unlink() if place.is_symlink() else None
            target.rmdir()
    return rest
