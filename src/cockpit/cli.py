"""The command line: parse, call, print."""

import io
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from cockpit import __version__
from cockpit.bench.commands import bench
from cockpit.core.errors import CockpitError

MADE_UP = "\0"  # no shell can give this
RUN = "RUN: the folder of a run, the database file in it, or a JSON log of the original Cockpit."


class Commands(click.Group):
    """A group that reports a wrong input or a disk error in a line, and is quiet if its output is closed."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; characters that the terminal lacks become question marks."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="replace")
        return super().main(*args, **extra)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the arguments; print help and version."""
        with _answering():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it watches it announces itself."""
        os.environ.setdefault("COCKPIT_QUIET", "1")
        with _answering():
            return super().invoke(ctx)


class _Refused(click.ClickException):
    exit_code = 2


@contextmanager
def _answering() -> Iterator[None]:
    """Turn errors of the user and the system into messages, until all output is written; let defects through."""
    try:
        try:
            yield
        finally:
            _flush()
    except CockpitError as error:
        raise _Refused(str(error)) from None
    except BrokenPipeError:
        _drop()
        sys.exit(0)
    except OSError as error:
        with suppress(OSError):
            _flush()
        _drop()
        raise _Refused(_said(error)) from None


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _drop() -> None:
    """Discard what is still to be written: nobody reads it."""
    with suppress(OSError, AttributeError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _said(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename is not None else "cannot read or write: "
    return f"{where}{error.strerror or error}"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cockpit")
def main() -> None:
    """Show what happens inside a PyTorch training run."""


@main.command()
@click.option("--steps", default=1500, show_default=True, type=click.IntRange(min=1), help="Training steps.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed.")
@click.option("--run", type=click.Path(path_type=Path), help="Folder of the run; default: a new folder in runs.")
@click.option("--page/--headless", default=True, help="Serve the live page while it trains.")
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser.")
def demo(steps: int, seed: int, run: Path | None, page: bool, browser: bool) -> None:
    """Train a small built-in problem, live in the browser."""
    from cockpit.demo import demo as train  # torch is loaded only where it is needed

    train(steps, seed, run, page, browser)


@main.command(epilog=f"{RUN} Default: the newest run below $COCKPIT_RUNS or ./runs. A folder of runs is listed.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--follow", "-f", is_flag=True, help="Update until the run ends; in a folder, the newest run.")
@click.option("--all", "everything", is_flag=True, help="List hidden runs, too.")
def show(run: Path | None, as_json: bool, follow: bool, everything: bool) -> None:
    """Show a run in the terminal."""
    from cockpit.plots.terminal import present

    present(run, as_json, follow, everything)


@main.group()
def runs() -> None:
    """Hide, rename or delete runs."""


@runs.command()
@click.argument("names", metavar="RUN...", nargs=-1, required=True)
def hide(names: tuple[str, ...]) -> None:
    """Leave runs out of lists; nothing is removed."""
    from cockpit.plots.curating import hide as leave_out

    leave_out(names, True, click.echo)


@runs.command()
@click.argument("names", metavar="RUN...", nargs=-1, required=True)
def unhide(names: tuple[str, ...]) -> None:
    """List hidden runs again."""
    from cockpit.plots.curating import hide as leave_out

    leave_out(names, False, click.echo)


@runs.command()
@click.argument("run")
@click.argument("name")
def rename(run: str, name: str) -> None:
    """Give RUN another NAME; its folder keeps its own."""
    from cockpit.plots.curating import rename as call

    call(run, name, click.echo)


@runs.command(epilog="Only what cockpit wrote is deleted; other files in the folder stay.")
@click.argument("names", metavar="RUN...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def delete(names: tuple[str, ...], yes: bool) -> None:
    """Delete runs, after asking."""
    from cockpit.plots.curating import delete as remove

    remove(names, (lambda question: True) if yes else click.confirm, click.echo)


@main.command(epilog=f"{RUN} Several runs go into the same figure, each in its colour.")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
@click.option("--out", "-o", type=click.Path(path_type=Path), help="File to write: .png, .svg, .pdf, .gif or .mp4.")
@click.option("--gif", type=click.Path(path_type=Path), help="File for an animation of the run: .gif or .mp4.")
@click.option("--panel", "panels", multiple=True, metavar="ID", help="Only this panel; repeatable.")
@click.option("--list", "listed", is_flag=True, help="Print the panels and their ids.")
@click.option("--title", help="Heading; default: the name of the run.")
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@click.option("--log/--linear", "logarithmic", default=None, help="Step axis; default: log from 1000 steps on.")
@click.option("--step", type=click.IntRange(min=0), help="Step of histograms and gauges; default: the last.")
@click.option("--from", "first", type=click.IntRange(min=0), help="First step.")
@click.option("--to", "last", type=click.IntRange(min=1), help="Last step.")
@click.option(
    "--smooth", type=click.FloatRange(0, 0.99), default=0.0, show_default=True, help="Weight of earlier values."
)
@click.option("--clock", is_flag=True, help="Over the time since the run began, not over steps.")
@click.option("--epochs", is_flag=True, help="Over epochs, where the run logged them: pit.log(epoch=3).")
@click.option("--y", type=click.Choice(["auto", "log", "linear"]), default="auto", help="Vertical axes.")
@click.option("--every-value", "every", is_flag=True, help="Draw every value, not the median of noisy curves.")
@click.option("--layers", help="Only layers whose name matches: text or a regular expression.")
@click.option("--scale", type=click.FloatRange(0.1, 10), help="Pixels per point; default: 2, in animations 1.")
@click.option("--fps", type=click.FloatRange(0.1, 60), default=8.0, show_default=True, help="Frames per second.")
@click.option("--frames", type=click.IntRange(2, 400), default=40, show_default=True, help="Frames of an animation.")
def plot(runs: tuple[Path, ...], **options: Any) -> None:
    """Draw the deck of a run, or some of its panels."""
    from cockpit.plots.paper import draw

    for line in draw(runs, note=partial(click.echo, err=True), **options):
        click.echo(line)


@main.command(epilog=RUN)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--to", "target", required=True, type=click.Choice(["csv", "parquet", "json", "tensorboard"]))
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Folder or file to write; default: ./NAME-FORMAT.")
@click.option("--force", is_flag=True, help="Replace an earlier export.")
def export(run: Path, target: str, out: Path | None, force: bool) -> None:
    """Export a run to CSV, Parquet, JSON or TensorBoard."""
    from cockpit.plots.reading import file_name, single
    from cockpit.store.export import export as write

    opened = single(run)
    for path in write(opened, target, out or Path(f"{file_name(opened)}-{target}"), force):
        click.echo(f"{path}  {path.stat().st_size:,} bytes")
    if damaged := getattr(opened, "damaged", None):
        click.echo(f"Warning: {run} is damaged; the export lacks what could not be read: {damaged}", err=True)


@main.command(epilog="FOLDER: a folder of runs. Default: $COCKPIT_RUNS or ./runs.")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; default: the first free port from 6180 on.")
@click.option(
    *("--token", "token"),
    is_flag=False,
    flag_value=MADE_UP,
    metavar="[=TOKEN]",
    help="Protect the page: with this password, or with one that is made up. Always so if other machines can reach it.",
)
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser.")
def ui(folder: Path | None, host: str, port: int | None, token: str | None, browser: bool) -> None:
    """Serve the live page of a folder of runs."""
    from cockpit.dashboard.server import serve
    from cockpit.plots.reading import runs_folder

    if token is not None and folder is None and Path(token).is_dir():
        raise CockpitError(f"--token {token}: this is a folder; give it first, or write --token=TOKEN")
    chosen = secrets.token_urlsafe(18) if token == MADE_UP else token
    serve(runs_folder(folder), host, port, chosen, browser)


main.add_command(bench)
