"""Commands that read results: tables, figures, imports, and what an optimizer costs; light until they run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cockpit.bench.folders import default_folder, run_folder

if TYPE_CHECKING:
    from cockpit.results.result import Result

FOLDER = "FOLDER holds results, ours or those of DeepOBS; otherwise $COCKPIT_RUNS/bench or runs/bench."
KINDS = ("curves", "sensitivity", "speed", "final")
FORMATS = ("text", "markdown", "csv", "json", "latex")

_path = click.Path(path_type=Path)
_folders = click.argument("folders", nargs=-1, type=_path, metavar="[FOLDER]...")
_problem = click.option("--problem", "problems", multiple=True, help="Only this one; may be given several times.")
_mode = click.option(
    "--mode",
    type=click.Choice(["shared", "final", "best", "most"]),
    default="shared",
    show_default=True,
    help="Which setting of an optimizer counts: the best at the end over the seeds that all settings have, over those "
    "that each has, the best at any epoch, the one with most seeds.",
)
_published = click.option("--published", is_flag=True, help="Show published figures beside.")
_schedule = click.option("--schedule", "schedules", multiple=True, help="Only this schedule; repeatable.")
_optimizer = click.option("--optimizer", "-O", "optimizers", multiple=True, help="Only this optimizer; repeatable.")


@click.command(epilog=FOLDER)
@_folders
@_problem
@_optimizer
@_schedule
@click.option("--format", type=click.Choice(FORMATS), default="text", show_default=True)
@_mode
@_published
@click.option("--all", "every", is_flag=True, help="List all settings, the best of each optimizer first.")
@click.option("--out", "-o", type=_path, help="Write to this file.")
def table(
    folders: tuple[Path, ...],
    problems: tuple[str, ...],
    optimizers: tuple[str, ...],
    schedules: tuple[str, ...],
    format: str,
    out: Path | None,
    **options: Any,
) -> None:
    """Tabulate performance, speed and hyperparameters."""
    from cockpit.results import formats, tables

    found = tables.table(tables.only(_given(folders), schedules, optimizers), problems or None, **options)
    if format == "text" and out is None:
        click.echo(formats.text(found, _width()), nl=False)
    elif out is None:
        click.echo(formats.render(found, format), nl=False)
    else:
        _write(out, formats.render(found, format))


@click.command(epilog=FOLDER)
@_folders
@click.option("--kind", type=click.Choice(KINDS), default="curves", show_default=True)
@_problem
@_optimizer
@_schedule
@click.option(
    "--baselines", multiple=True, type=_path, help="Results to draw behind: a folder, or a table of runs (.csv)."
)
@_mode
@_published
@click.option("--hyperparameter", default="lr", show_default=True, help="That of a sensitivity.")
@click.option("--title", default="", help="Heading.")
@click.option("--theme", type=click.Choice(["light", "dark", "print"]), default="light", show_default=True)
@click.option("--out", "-o", required=True, type=_path, help="The file: .png, .svg, .pdf or .tex.")
def plot(
    folders: tuple[Path, ...],
    kind: str,
    problems: tuple[str, ...],
    optimizers: tuple[str, ...],
    schedules: tuple[str, ...],
    baselines: tuple[Path, ...],
    out: Path,
    **options: Any,
) -> None:
    """Draw learning curves, sensitivity, speed, or how runs ended."""
    from cockpit.plots.bench import figure
    from cockpit.results.tables import only

    results, behind = _apart(only(_given(folders), schedules, optimizers))
    made = figure(results, kind, out, behind + _read(baselines), problems=problems or None, **options)
    click.echo(f"{made}  {made.stat().st_size:,} bytes")


@click.command("import")
@click.argument("source", type=_path)
@click.option("--out", "-o", required=True, type=_path, help="The folder of results to add to.")
def import_(source: Path, out: Path) -> None:
    """Import results of DeepOBS.

    SOURCE is a folder or a JSON file of DeepOBS, or a table of its baselines (..._runs.csv or .csv.gz, with
    ..._curves.csv beside it).
    """
    from cockpit.core.errors import CockpitError
    from cockpit.results import folder

    found = [one for one in _read([source], batch_losses=True) if one.source != "cockpit"]
    if not found:
        raise CockpitError(f"{source} holds no results of DeepOBS; give its folder of results, or a table of runs")
    for one in found:
        rounded = {
            name: float(f"{value:.6g}") if isinstance(value, float) else value
            for name, value in one.hyperparameters.items()
        }
        schedule = {} if one.schedule == "constant" else {"schedule": one.schedule}
        extras = {"epochs": one.epochs, "batch": one.batch_size, **schedule, **one.variant, "source": one.source}
        folder.write(
            replace(one, hyperparameters=rounded),
            run_folder(out, one.problem, one.optimizer, rounded, extras, one.seed),
        )
    click.echo(f"{len(found)} {'result' if len(found) == 1 else 'results'} written below {out}")


@click.command()
@click.argument("optimizer")
@click.option("--lr", type=float, help="Learning rate; otherwise the optimizer's own.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Another hyperparameter; repeatable.")
@click.option("--problem", default="mnist_mlp", show_default=True)
@click.option("--epochs", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--runs", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--batch-size", type=click.IntRange(min=1), default=128, show_default=True)
@click.option("--data-dir", type=_path, help="Where the data are; otherwise $COCKPIT_DATA.")
@click.option("--device", help="cpu, cuda, cuda:1, ...; otherwise a GPU if there is one.")
def runtime(optimizer: str, lr: float | None, settings: Sequence[str], data_dir: Path | None, **options: Any) -> None:
    """Compare the training time of OPTIMIZER with that of SGD."""
    from cockpit.bench.optimizers import choose
    from cockpit.bench.runtime import estimate
    from cockpit.bench.working import hyperparameters
    from cockpit.problems._base import Place

    choice = choose(optimizer, **hyperparameters(lr, settings))
    found = estimate(choice, place=Place(data_dir) if data_dir else None, **options)
    ratio, runs = f"{found.ratio_mean:.2f}", options["runs"]
    counted = "a single run" if runs == 1 else f"{runs} runs"
    ratio += "" if runs == 1 else f" ± {found.ratio_std:.2f}"
    click.echo(f"{choice.name} trains {options['problem']} in {ratio} times the time of SGD ({counted} each)")


COMMANDS: list[click.Command] = [table, plot, import_, runtime]


def _given(folders: Sequence[Path]) -> "list[Result]":
    """The results in the folders; an empty place is an error with a hint."""
    from cockpit.core.errors import CockpitError

    places = list(folders) or [default_folder()]
    found = _read(places) if folders or places[0].exists() else []
    if not found:
        where = ", ".join(map(str, places))
        raise CockpitError(f"no results in {where}; make some with `cockpit bench run`, or give another FOLDER")
    return found


def _apart(results: "Sequence[Result]") -> "tuple[list[Result], list[Result]]":
    """Own results in front, imported ones behind them; those of a problem that has no own are in front."""
    own = {one.problem for one in results if one.source == "cockpit"}
    behind = [one for one in results if one.source != "cockpit" and one.problem in own]
    return [one for one in results if one.source == "cockpit" or one.problem not in own], behind


def _read(places: Sequence[Path], batch_losses: bool = False) -> "list[Result]":
    """Everything that is in the places; what cannot be read is said and left out."""
    from cockpit.results import deepobs, folder

    found: list[Result] = []
    for place in places:
        if tables := deepobs.tables_at(place):
            found += deepobs.baseline_tables(*tables)
        if place.suffix not in (".csv", ".gz"):
            there = folder.find(place, batch_losses)
            found += there
            for problem in there.problems:
                click.echo(f"Warning: left out: {problem}", err=True)
    return found


def _width() -> int | None:
    """The width of the terminal; None where the output goes elsewhere."""
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _write(out: Path, text: str) -> None:
    from cockpit.core.writing import refusing, whole

    with refusing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole(out) as part:
            part.write_text(text, encoding="utf-8")
    click.echo(f"{out}  {out.stat().st_size:,} bytes")
