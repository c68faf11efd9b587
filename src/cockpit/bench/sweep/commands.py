"""The commands of sweeps: ``sweep``, ``status``, ``report``; light until they run."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from cockpit.results.sweeps.plan import SweepPlan
    from cockpit.results.sweeps.store import Store

WHAT = "FILE is a study file (`cockpit bench sweep --example` prints one), FOLDER the folder of a sweep."
ENGINES = "Where: local, slurm[:NAME=VALUE,...] (options of submitit), or ray[:ADDRESS]."
_path = click.Path(path_type=Path)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _example(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from cockpit.bench.sweep.example import EXAMPLE

        click.echo(EXAMPLE, nl=False)
        context.exit()


@click.command(epilog="FILE: a study file. A sweep may be stopped at any moment; the same command continues it.")
@click.argument("file", type=_path)
@click.option("--dry-run", is_flag=True, help="Only say what is to be done.")
@click.option("--retry-failed", is_flag=True, help="Train runs again that failed.")
@click.option("--on", default="local", show_default=True, metavar="ENGINE", help=ENGINES)
@click.option("--workers", type=click.IntRange(min=0), help="Processes; otherwise one for each core or GPU. 0: none.")
@click.option("--device", help="cpu, cuda, cuda:1, ...; otherwise GPUs if there are any.")
@click.option("--out", type=_path, help="Folder of the results; otherwise $COCKPIT_RUNS or runs, /sweeps/NAME.")
@click.option("--data-dir", type=_path, help="Where the data are; otherwise $COCKPIT_DATA.")
@click.option("--no-download", is_flag=True, help="Never download data.")
@click.option(
    "--example", is_flag=True, is_eager=True, expose_value=False, callback=_example, help="Print a study file."
)
@_json
def sweep(file: Path, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Tune optimizers with the same budget each, and compare them."""
    from cockpit.bench.sweep import carrying
    from cockpit.bench.sweep.telling import lines, planned

    context = click.get_current_context()
    try:
        if dry_run:
            ended = carrying.dry(file, options["out"], options["on"], options["retry_failed"])
        else:
            ended = carrying.carry_out(file, **options)
    except KeyboardInterrupt:  # before anything was trained
        click.echo("Stopped.", err=True)
        context.exit(130)
    if as_json:
        click.echo(json.dumps(ended.told))
    elif dry_run:
        click.echo(planned(ended.told, ended.exactly))
    else:
        click.echo(lines(ended.told))
    context.exit(ended.code)


@click.command(epilog=WHAT)
@click.argument("what", type=_path, metavar="FILE|FOLDER")
@click.option("--runs", is_flag=True, help="With --json: add every result.")
@_json
def status(what: Path, runs: bool, as_json: bool) -> None:
    """Show the progress of a sweep."""
    from cockpit.bench.sweep.living import living
    from cockpit.bench.sweep.telling import lines
    from cockpit.results.sweeps.status import status as tell

    plan, store = _found(what)
    told = tell(plan, store, store is not None and living(store.folder), details=runs)
    click.echo(json.dumps(told) if as_json else lines(told))
    left, failed = told["runs"]["left"], told["runs"]["failed"]
    click.get_current_context().exit(3 if left else 1 if failed else 0)


@click.command(epilog=WHAT)
@click.argument("what", type=_path, metavar="FILE|FOLDER")
@click.option("--format", type=click.Choice(["text", "html", "latex", "csv", "json"]), help="Otherwise by -o, or text.")
@click.option("--published", is_flag=True, help="Show the published study's figures beside.")
@click.option(
    "--with", "others", multiple=True, type=_path, metavar="STORE", help="Another sweep's folder, as baselines."
)
@click.option("--costs", type=_path, help="Lines of `cockpit bench runtime --json`: times of training beside SGD's.")
@click.option("--out", "-o", type=_path, help="Write to this file: .txt, .html, .tex, .csv or .json.")
def report(what: Path, format: str | None, costs: Path | None, out: Path | None, **options: Any) -> None:
    """Show how the optimizers of a sweep compare."""
    from cockpit.bench.reporting import put, width
    from cockpit.bench.sweep.showing import reported
    from cockpit.results.sweeps.costs import read_costs

    plan, store = _found(what)
    options |= {"format": format or _by_ending(out), "width": width() if out is None else None}
    put(reported(what, plan, store, costs=None if costs is None else read_costs(costs), **options), out)


ENDINGS = {".html": "html", ".htm": "html", ".tex": "latex", ".csv": "csv", ".json": "json"}


def _by_ending(out: Path | None) -> str:
    return "text" if out is None else ENDINGS.get(out.suffix.lower(), "text")


COMMANDS: list[click.Command] = [sweep, status, report]


def _found(what: Path) -> "tuple[SweepPlan, Store | None]":
    """The plan of a file or a folder, and the store, if there is one; a folder is read without torch."""
    from cockpit.bench.sweep.study import folder_of, is_study, read
    from cockpit.results.sweeps.store import NAME, Store

    if not is_study(what):
        store = Store(what)
        return store.plan(), store
    from cockpit.bench.sweep.resolve import resolve

    study = read(what)
    folder = folder_of(study.name, None, os.environ.get("COCKPIT_RUNS"))
    plan = resolve(study, [str(study.folder), os.getcwd()])
    return plan, Store(folder) if (folder / NAME).is_file() else None
