"""Read a log: a file, a run folder, a dictionary or a live object become ``{step: {name: value}}``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cockpit.core.errors import CockpitError

Steps = dict[int, dict[str, Any]]

RUN_FILE = "output.json"  # what a watched run leaves in its folder


def read(source: Any) -> Steps:
    """Return the steps of ``source``, in order."""
    if isinstance(source, str | Path):
        path = locate(source)
        return _steps(_parse(path), str(path))
    if isinstance(source, Mapping):
        return _steps(source, "the dictionary")
    if callable(getattr(source, "get_output", None)):
        return _steps(source.get_output(), f"the output of {type(source).__name__}")
    raise CockpitError(
        f"source is {type(source).__name__}; give the path of a log, its dictionary, or an object with get_output()"
    )


def locate(source: str | Path) -> Path:
    """Find the file: ``source`` with or without ``.json``, or a run folder."""
    given = Path(source)
    options = [Path(f"{source}.json"), given / RUN_FILE] if given.suffix != ".json" else [given]
    for path in options:
        if path.is_file():
            return path
    tried = " nor ".join(str(path) for path in options)
    raise CockpitError(f"no log found: {tried} does not exist; give the path that was passed to Cockpit.write")


def _parse(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CockpitError(f"{path} is not a log: not JSON ({error}); give a file made by Cockpit.write") from None


def _steps(data: Any, where: str) -> Steps:
    if not isinstance(data, Mapping):
        raise CockpitError(f"{where} is not a log: it holds {type(data).__name__}, not {{step: {{quantity: value}}}}")
    found: Steps = {}
    for key, values in data.items():
        if not isinstance(values, Mapping):
            raise CockpitError(f"{where} is not a log: entry {key!r} holds {type(values).__name__}, not quantities")
        try:
            found[int(key)] = dict(values)
        except (TypeError, ValueError):
            raise CockpitError(f"{where} is not a log: its key {key!r} is not the number of a step") from None
    return dict(sorted(found.items()))
