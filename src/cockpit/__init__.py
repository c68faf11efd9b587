"""Cockpit: a flight deck for training neural networks."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_HOMES = {
    "watch": "tracking.attach",
    "Cockpit": "cockpit",
    "extend": "cockpit",
    "CockpitPlotter": "plots.plotter",
    "configuration": "utils.configuration",
    "open_run": "run",
    "CockpitError": "core.errors",
}
__all__ = ["Cockpit", "CockpitError", "CockpitPlotter", "__version__", "configuration", "extend", "open_run", "watch"]
try:
    __version__ = version("cockpit-deck")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(_loaded(_HOMES[name]), name)
    raise AttributeError(f"module 'cockpit' has no attribute {name!r}")


def _loaded(home: str) -> Any:
    """Import a module; PyTorch is never installed along, so that no install replaces the user's."""
    try:
        return import_module(f"cockpit.{home}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        message = (
            "cockpit measures with PyTorch 2.11 or later, which is not installed: see https://pytorch.org/get-started"
        )
        raise ImportError(message, name="torch") from error
