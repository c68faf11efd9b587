"""What can be said about a run without looking at the model: where, when, how and with what it was started."""

import os
import shlex
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

from cockpit.store.lock import host

PACKAGES = ("cockpit-deck", "torch", "numpy", "lightning", "transformers", "accelerate")
PATIENCE = 2.0  # seconds for each call of git


def collect() -> dict[str, Any]:
    """Return everything that is known at once; :func:`git` takes longer and is asked by the writing thread."""
    return {
        "started": time.time(),
        "host": host(),
        "pid": os.getpid(),
        "command": command(),
        "directory": directory(),
        "packages": packages(),
    }


def command() -> str:
    """The command line, with the interpreter, as one could type it."""
    return shlex.join([sys.executable or "python", *sys.argv])


def directory() -> str | None:
    """The working directory; None if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


def packages() -> dict[str, str]:
    """Versions of Python and of the packages that matter, those that are installed, without importing them."""
    found = {"python": python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git(folder: str | Path | None) -> dict[str, Any] | None:
    """Commit, branch and whether files were changed; None outside a repository or without git. Never raises."""
    if folder is None:
        return None
    commit = _ask(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _ask(folder, "status", "--porcelain", "--untracked-files=no")
    branch = _ask(folder, "rev-parse", "--abbrev-ref", "HEAD")
    return {"commit": commit, "branch": branch, "dirty": None if changes is None else changes != ""}


def _ask(folder: str | Path, *arguments: str) -> str | None:
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip()
