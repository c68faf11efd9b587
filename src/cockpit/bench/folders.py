"""Where a run lies: ``<out>/<problem>/<optimizer>/<settings>/seed_<S>``; readable, stable, safe on every disk."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONGEST = 160  # characters of a folder's name


def default_folder() -> Path:
    """Where results are unless told otherwise."""
    return Path(os.environ.get("COCKPIT_RUNS") or "runs") / "bench"


def run_folder(
    out: Path, problem: str, optimizer: str, hyperparameters: Mapping[str, Any], extras: Mapping[str, Any], seed: int
) -> Path:
    """The folder of one run."""
    return out / _short(safe(problem)) / _short(safe(optimizer)) / settings(hyperparameters, extras) / f"seed_{seed}"


def settings(hyperparameters: Mapping[str, Any], extras: Mapping[str, Any]) -> str:
    """Name the hyperparameters, the learning rate first, then what differs from the problem's own settings."""
    names = sorted(hyperparameters, key=lambda name: (name != "lr", name))
    parts = [f"{safe(name)}_{_text(name, hyperparameters[name])}" for name in names]
    parts += [safe(name) if value is True else f"{safe(name)}_{_text(name, value)}" for name, value in extras.items()]
    return _short("__".join(parts))


def safe(text: str) -> str:
    """A text in characters that every disk takes in a name."""
    found = re.sub(r"[^A-Za-z0-9_.,+@-]+", "-", text).strip("-.")
    return found or f"unnamed-{_digest(text)}"  # one such name is not another


def _text(name: str, value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and name == "lr":
        import numpy as np  # the command line needs only the default folder

        return np.format_float_scientific(float(value), trim="-", exp_digits=2)
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, list | tuple):
        return ",".join(_text("", entry) for entry in value)
    return safe(str(value))


def _short(text: str) -> str:
    """Cut a name that a disk would refuse; its end still tells it from others."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 14].rstrip('_')}__{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
