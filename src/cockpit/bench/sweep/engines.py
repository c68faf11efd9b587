"""The engines by name, and what must be there for each of them."""

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch

from cockpit.bench.precision import choose_device
from cockpit.bench.sweep.engine import Engine, Inline
from cockpit.bench.sweep.local import Local
from cockpit.bench.sweep.making import Context
from cockpit.bench.sweep.ray import Ray
from cockpit.bench.sweep.slurm import Slurm, option
from cockpit.core.errors import CockpitError, unknown

PARCELS = "parcels"  # a folder in the store's, for what workers on a cluster write
ENGINES = ("local", "slurm[:NAME=VALUE,...]", "ray[:ADDRESS]")
MODULES = {"slurm": "submitit", "ray": "ray"}


def check(on: str, device: str | None = None, workers: int | None = None) -> None:
    """Raise for an engine or a device that is not there, before anything is written."""
    kind, _, rest = on.partition(":")
    if on != "local" and kind not in ("slurm", "ray"):
        raise unknown("engine", on, ENGINES)
    if kind == "local":
        _devices(device)
    elif workers == 0:
        raise CockpitError(f"--workers 0 trains in this process, --on {kind} elsewhere; leave one of the two out")
    if kind == "ray" and device is not None:
        raise CockpitError(f"--device {device}: Ray places runs by gpus = 0.25 in [problem.NAME]; leave --device out")
    if kind != "local" and find_spec(MODULES[kind]) is None:
        raise CockpitError(f"--on {kind} needs {MODULES[kind]}; install it with pip install 'cockpit-deck[{kind}]'")
    if kind == "slurm" and rest:
        dict(map(option, rest.split(",")))


def started(
    on: str, context: Context, store: Path, gpus: Mapping[str, float], workers: int | None, device: str | None
) -> Engine:
    """The engine that is asked for.

    Args:
        on: Its name, and what it needs to know.
        context: What workers need to know.
        store: The folder of the sweep.
        gpus: Shares of one that runs of a problem take, on Ray.
        workers: How many work at a time.
        device: On what they train.
    """
    kind, _, rest = on.partition(":")
    if kind == "slurm":
        folder = store.absolute() / PARCELS
        return Slurm(replace(context, device=device or "cpu"), workers, rest.split(",") if rest else (), folder)
    if kind == "ray":
        return Ray(context, workers, rest or None, gpus)
    devices = _devices(device)
    if workers == 0:
        return Inline(replace(context, device=devices[0]))
    return Local(context, workers or (len(devices) if devices[0] != "cpu" else cores()), devices)


def _devices(device: str | None) -> list[str]:
    """Where workers train: on each GPU one, if there are any and no device is named."""
    found = choose_device(device)
    if found.type == "cuda" and device in (None, "cuda"):
        return [f"cuda:{place}" for place in range(torch.cuda.device_count())]
    return [str(found)]


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
