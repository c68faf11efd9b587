"""Commands that read results: tables, figures, imports, run time of an optimizer. Heavy modules are loaded on use."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cockpit.bench.folders import default_folder, run_folder

if TYPE_CHECKING:
    from cockpit.results.result import Result

FOLDER = "FOLDER holds results: runs, a sweep, or those of DeepOBS; otherwise $COCKPIT_RUNS/bench or runs/bench."
KINDS = ("curves", "sensitivity", "speed", "final")
FORMATS = ("text", "markdown", "csv", "json", "latex")

_path = click.Path(path_type=Path)
_folders = click.argument("folders", nargs=-1, type=_path, metavar="[FOLDER]...")
_problem = click.option("--problem", "problems", multiple=True, help="Only this problem; repeatable.")
_mode = click.option(
    "--mode",
    type=click.Choice(["shared", "final", "best", "most"]),
    default="shared",
    show_default=True,
    help="Setting of an optimizer that counts. shared: best at the end, over the seeds that all settings have; final: "
    "over all seeds of each; best: best at any epoch; most: the one with most seeds.",
)
_published = click.option("--published", is_flag=True, help="Add the published figures.")
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
@click.option("--out", "-o", type=_path, help="File to write.")
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

    tabulated = tables.table(tables.only(_given(folders), schedules, optimizers), problems or None, **options)
    if format == "text" and out is None:
        click.echo(formats.text(tabulated, width()), nl=False)
    elif out is None:
        click.echo(formats.render(tabulated, format), nl=False)
    else:
        _write(out, formats.render(tabulated, format))


@click.command(epilog=FOLDER)
@_folders
@click.option("--kind", type=click.Choice(KINDS), default="curves", show_default=True)
@_problem
@_optimizer
@_schedule
@click.option(
    "--baselines", multiple=True, type=_path, help="Results for the background: a folder, or a table of runs (.csv)."
)
@_mode
@_published
@click.option("--hyperparameter", default="lr", show_default=True, help="Hyperparameter of a sensitivity figure.")
@click.option("--title", default="", help="Heading.")
@click.option("--theme", type=click.Choice(["light", "dark", "print"]), default="light", show_default=True)
@click.option("--out", "-o", required=True, type=_path, help="File to write: .png, .svg, .pdf or .tex.")
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
    """Draw learning curves, sensitivity, speed or final performance."""
    from cockpit.plots.bench import figure
    from cockpit.results.tables import only

    results, behind = _apart(only(_given(folders), schedules, optimizers))
    written = figure(results, kind, out, behind + _read(baselines), problems=problems or None, **options)
    click.echo(f"{written}  {written.stat().st_size:,} bytes")


@click.command("import")
@click.argument("source", type=_path)
@click.option("--out", "-o", required=True, type=_path, help="Folder of results to add to.")
def import_(source: Path, out: Path) -> None:
    """Import results of DeepOBS.

    SOURCE is a folder or a JSON file of DeepOBS, or a table of its baselines (..._runs.csv or .csv.gz, with
    ..._curves.csv in the same folder).
    """
    from cockpit.core.errors import CockpitError
    from cockpit.results import folder

    imported = [result for result in _read([source], batch_losses=True) if result.source != "cockpit"]
    if not imported:
        raise CockpitError(f"{source} holds no results of DeepOBS; give its folder of results, or a table of runs")
    for result in imported:
        rounded = {
            name: float(f"{value:.6g}") if isinstance(value, float) else value
            for name, value in result.hyperparameters.items()
        }
        schedule = {} if result.schedule == "constant" else {"schedule": result.schedule}
        extras = {
            "epochs": result.epochs,
            "batch": result.batch_size,
            **schedule,
            **result.variant,
            "source": result.source,
        }
        folder.write(
            replace(result, hyperparameters=rounded),
            run_folder(out, result.problem, result.optimizer, rounded, extras, result.seed),
        )
    click.echo(f"{len(imported)} {'result' if len(imported) == 1 else 'results'} written below {out}")


@click.command()
@click.argument("optimizer")
@click.option("--lr", type=float, help="Learning rate; default: the optimizer's.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a hyperparameter; repeatable.")
@click.option("--problem", default="mnist_mlp", show_default=True)
@click.option("--epochs", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--runs", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--batch-size", type=click.IntRange(min=1), default=128, show_default=True)
@click.option("--data-dir", type=_path, help="Where the data are; otherwise $COCKPIT_DATA.")
@click.option("--device", help="cpu, cuda, cuda:1, ...; otherwise a GPU if there is one.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON, for `bench report --costs`.")
def runtime(
    optimizer: str, lr: float | None, settings: Sequence[str], data_dir: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare the training time of OPTIMIZER with that of SGD."""
    from cockpit.bench.optimizers import choose
    from cockpit.bench.runtime import estimate
    from cockpit.bench.working import hyperparameters
    from cockpit.problems._base import Place

    choice = choose(optimizer, **hyperparameters(lr, settings))
    measured = estimate(choice, place=Place(data_dir) if data_dir else None, **options)
    if as_json:
        told = {"optimizer": choice.name, "problem": options["problem"], "runs": options["runs"]}
        click.echo(json.dumps(told | {"ratio": measured.ratio_mean, "std": measured.ratio_std}))
        return
    ratio, runs = f"{measured.ratio_mean:.2f}", options["runs"]
    counted = "a single run" if runs == 1 else f"{runs} runs"
    ratio += "" if runs == 1 else f" ± {measured.ratio_std:.2f}"
    click.echo(f"{choice.name} trains {options['problem']} in {ratio} times the time of SGD ({counted} each)")


COMMANDS: list[click.Command] = [table, plot, import_, runtime]


def _given(folders: Sequence[Path]) -> "list[Result]":
    """Return the results in the folders; raise an error if there are none."""
    from cockpit.core.errors import CockpitError

    places = list(folders) or [default_folder()]
    results = _read(places) if folders or places[0].exists() else []
    if not results:
        where = ", ".join(map(str, places))
        raise CockpitError(f"no results in {where}; make some with `cockpit bench run`, or give another FOLDER")
    return results


def _apart(results: "Sequence[Result]") -> "tuple[list[Result], list[Result]]":
    """Return results for the front and for the background: imported results, if the problem has any of Cockpit."""
    problems = {result.problem for result in results if result.source == "cockpit"}
    behind = [result for result in results if result.source != "cockpit" and result.problem in problems]
    return [result for result in results if result.source == "cockpit" or result.problem not in problems], behind


def _read(places: Sequence[Path], batch_losses: bool = False) -> "list[Result]":
    """Return all results in the folders; warn of what cannot be read, and leave it out."""
    from cockpit.results import deepobs, folder

    results: list[Result] = []
    for place in places:
        if tables := deepobs.tables_at(place):
            results += deepobs.baseline_tables(*tables)
        if place.suffix not in (".csv", ".gz"):
            there = folder.find(place, batch_losses)
            results += there
            for problem in there.problems:
                click.echo(f"Warning: left out: {problem}", err=True)
    return results


def width() -> int | None:
    """Return the width of the terminal; None if the output goes to a file or pipe."""
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def put(text: str, out: Path | None) -> None:
    """Print a text, or write it to a file and say so."""
    if out is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        _write(out, text)


def _write(out: Path, text: str) -> None:
    from cockpit.core.writing import refusing, whole

    with refusing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole(out) as part:
            part.write_text(text, encoding="utf-8")
    click.echo(f"{out}  {out.stat().st_size:,} bytes")
