"""What the page may change: hide, show, rename and delete a run. Asked for by the page itself, on this machine only."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cockpit import store
from cockpit.core.errors import CockpitError, unknown
from cockpit.dashboard.fleet import Fleet

LONGEST = 200  # letters of a name
BODY = 4096  # bytes of a request

Action = Callable[[Path, str], object]
ACTIONS: Mapping[str, Action] = {
    "hide": lambda path, name: store.hide(path, True),
    "show": lambda path, name: store.hide(path, False),
    "rename": lambda path, name: store.rename(path, _named(name)),
    "delete": lambda path, name: store.delete(path),
}


def manage(fleet: Fleet, body: bytes) -> dict[str, Any]:
    """Do what a request asks for; the run is looked up in the list, never joined to a path."""
    try:
        asked = json.loads(body)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise CockpitError('the request is not JSON; send {"action": "hide", "run": ID}')
    action, ident = str(asked.get("action", "")), str(asked.get("run", ""))
    if action not in ACTIONS:
        raise unknown("action", action, ACTIONS)
    path = fleet.info(ident).path
    fleet.let_go(ident)
    try:
        ACTIONS[action](path, str(asked.get("name", "")))
    except OSError as error:
        raise CockpitError(f"{path} cannot be changed: {error.strerror or error}; look at its permissions") from error
    finally:
        fleet.renew()
    return {"done": action, "run": ident}


def _named(name: str) -> str:
    """A name that can be shown."""
    plain = " ".join(name.split())
    if not plain:
        raise CockpitError("the name is empty; give the run one")
    if len(plain) > LONGEST:
        raise CockpitError(f"the name has {len(plain)} letters; give at most {LONGEST}")
    return plain
