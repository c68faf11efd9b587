"""What ``cockpit bench sweep`` does."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cockpit.bench import importing
from cockpit.bench.listing import data_there
from cockpit.bench.sweep import study as studies
from cockpit.bench.sweep.changes import changes
from cockpit.bench.sweep.engine import INCOMPLETE
from cockpit.bench.sweep.engines import PARCELS, check, cores, started
from cockpit.bench.sweep.living import held
from cockpit.bench.sweep.making import Context, variant_of
from cockpit.bench.sweep.places import places, their_words
from cockpit.bench.sweep.progress import shown
from cockpit.bench.sweep.resolve import resolve
from cockpit.bench.sweep.run import SCRATCH, Sweep
from cockpit.bench.sweep.slurm import take_in
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place
from cockpit.results.sweeps.plan import SweepPlan
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.selection import chosen
from cockpit.results.sweeps.status import Count, count, nominal, seconds_left, status
from cockpit.results.sweeps.store import NAME, Row, Store, create
from cockpit.store.lock import Busy

COMPLETE, FAILURES, LIVING, STOPPED = 0, 1, 4, 130
BYTES = 4000  # of a run, if nothing is known


@dataclass(frozen=True, slots=True)
class Ended:
    """What is to be printed, and the exit code."""

    told: dict[str, Any]
    code: int
    exactly: bool = True  # otherwise what is to do depends on who wins, and is told as the most it can be


@dataclass(frozen=True, slots=True)
class Prepared:
    """A study that is in order."""

    plan: SweepPlan
    folder: Path  # of its store
    modules: tuple[str, ...]  # folders where modules are looked for
    gpus: dict[str, float]  # shares of one that runs of a problem take, on Ray


def prepare(file: Path, out: Path | None = None) -> Prepared:
    """Read and check a study file."""
    study = studies.read(file)
    modules = (str(study.folder), os.getcwd())
    folder = studies.folder_of(study.name, out, os.environ.get("COCKPIT_RUNS"))
    gpus = {name: float(table["gpus"]) for name, table in study.options.items() if "gpus" in table}
    return Prepared(resolve(study, modules), folder, modules, gpus)


def dry(file: Path, out: Path | None = None, on: str = "local", retry_failed: bool = False) -> Ended:
    """Say what a sweep would do."""
    check(on)
    prepared = prepare(file, out)
    plan = prepared.plan
    store = Store(prepared.folder) if (prepared.folder / NAME).is_file() else None
    rows = {} if store is None else store.rows()
    if retry_failed:
        rows = {id: row for id, row in rows.items() if row.state != "failed"}
    counted = _counted(plan, rows)
    each = store.bytes / len(rows) if store is not None and rows else BYTES
    runs = {"nominal": nominal(plan), "stored": len(counted.rows), "to_do": counted.left}
    seconds = seconds_left(counted)
    told = {
        "name": plan.name,
        "cells": plan.cells,
        "runs": runs,
        "seconds": None if seconds is None else seconds / cores(),
    }
    return Ended({**told, "bytes": round(each * counted.left)}, COMPLETE, not counted.unknown)


def carry_out(
    file: Path,
    *,
    out: Path | None = None,
    on: str = "local",
    workers: int | None = None,
    device: str | None = None,
    data_dir: Path | None = None,
    no_download: bool = False,
    retry_failed: bool = False,
) -> Ended:
    """Carry a study out, or what is left of it."""
    check(on, device, workers)
    prepared = prepare(file, out)
    data = None if data_dir is None else str(data_dir.absolute())
    context = Context(prepared.modules, str((prepared.folder / SCRATCH).absolute()), data, not no_download)
    _fetch(prepared, context.place)
    store = create(prepared.folder, prepared.plan)
    console = Console(stderr=True)
    try:
        with held(store.folder) as alive:
            for said in _changes(store, prepared.plan):
                console.print(f"Note: {said}", markup=False, highlight=False, soft_wrap=True)
            store.keep(prepared.plan)
            take_in(store.folder / PARCELS, store)
            engine = started(on, context, prepared.folder, prepared.gpus, workers, device)
            try:
                with places(prepared.modules), shown(console, engine.slots) as progress:
                    Sweep(prepared.plan, store, engine, progress, retry_failed).go(alive)
                take_in(store.folder / PARCELS, store)
            finally:
                engine.close()
    except Busy as error:
        console.print(f"Error: {store.folder} is being swept by {error}; wait for it", markup=False, soft_wrap=True)
        return Ended(status(prepared.plan, store, alive=True), LIVING)
    except CockpitError as error:  # the disk is full, say, or the cluster is gone
        console.print(f"Error: {error}", markup=False, highlight=False, soft_wrap=True)
        return Ended(status(prepared.plan, store, alive=False), INCOMPLETE)
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on where it stopped.")
        return Ended(status(prepared.plan, store, alive=False), STOPPED)
    told = status(prepared.plan, store, alive=False)
    return Ended(told, FAILURES if told["runs"]["failed"] else COMPLETE)


def _fetch(prepared: Prepared, place: Place) -> None:
    """Data that are not there are fetched once, before workers need them; an error comes before anything is written."""
    with places(prepared.modules), their_words():
        for task in prepared.plan.problems:
            if data_there(task.name, place.folder) is False:
                variant = variant_of({**task.options, "order": task.order, "hessian": task.matrix})
                importing.problem(task.name).data(place, variant)


def _changes(store: Store, plan: SweepPlan) -> Iterator[str]:
    rows = store.rows()
    return changes(store.plan(), plan, rows.keys(), _counted(plan, rows).specs.keys())


def _counted(plan: SweepPlan, rows: dict[str, Row]) -> Count:
    return count([one for group in groups(plan) for one in chosen(group, rows)], rows)
