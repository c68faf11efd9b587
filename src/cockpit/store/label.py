"""What a reader has written on a run: another name, and whether lists leave it out. The run itself stays untouched."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cockpit.core.errors import CockpitError
from cockpit.core.writing import refusing, whole
from cockpit.store.contents import holds_run

NAME = "run.label"
MOST = 4096  # bytes


@dataclass(frozen=True, slots=True)
class Label:
    """A label; an empty one says nothing."""

    name: str | None = None
    hidden: bool = False


def label(folder: Path) -> Label:
    """Read a folder's label; one that cannot be read says nothing."""
    path = folder / NAME
    try:
        if not path.is_file():
            return Label()
        with path.open("rb") as file:
            found = json.loads(file.read(MOST))
    except (OSError, ValueError, RecursionError):
        return Label()
    if not isinstance(found, dict):
        return Label()
    name = found.get("name")
    return Label(name if isinstance(name, str) and name.strip() else None, found.get("hidden") is True)


def hide(folder: str | Path, hidden: bool = True) -> None:
    """Leave a run out of lists, or take it in again; nothing of it is removed."""
    place = _run(folder)
    _write(place, replace(label(place), hidden=hidden))


def rename(folder: str | Path, name: str) -> None:
    """Call a run something else; its folder keeps its name."""
    place = _run(folder)
    if not name.strip():
        raise CockpitError(f"the new name of {place} is empty; give one")
    _write(place, replace(label(place), name=name.strip()))


def _run(folder: str | Path) -> Path:
    place = Path(folder)
    if not holds_run(place):
        raise CockpitError(f"{place} holds no run; give the folder of one")
    return place


def _write(folder: Path, made: Label) -> None:
    path = folder / NAME
    with refusing(path):
        if made == Label():
            path.unlink(missing_ok=True)
            return
        with whole(path) as part:
            part.write_text(json.dumps(asdict(made)))
