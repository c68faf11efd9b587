"""``cockpit runs``: hide, rename and delete runs from the command line."""

from collections.abc import Callable, Sequence
from pathlib import Path

from cockpit import store
from cockpit.core.errors import CockpitError
from cockpit.plots.reading import runs_folder
from cockpit.store.run import StoredRun

Ask = Callable[[str], bool]
Say = Callable[[str], None]


def run_folder(given: str) -> Path:
    """The folder of a run: as given, or by its path below the folder of all runs."""
    for path in (Path(given).expanduser(), runs_folder() / given):
        if StoredRun.at(path):
            return path
    raise CockpitError(
        f"{given} is no run; give the folder of one, or its name as `cockpit show {runs_folder()}` lists it"
    )


def hide(given: Sequence[str], hidden: bool, say: Say) -> None:
    """Leave runs out of lists, or take them in again."""
    for path in [run_folder(name) for name in given]:
        store.hide(path, hidden)
        say(f"{path} is {'hidden; `cockpit show --all` lists it' if hidden else 'listed again'}")


def rename(given: str, name: str, say: Say) -> None:
    """Call a run something else."""
    path = run_folder(given)
    store.rename(path, name)
    say(f"{path} is now called {name.strip()}")


def delete(given: Sequence[str], ask: Ask, say: Say) -> None:
    """Delete runs, each after the question was answered with yes."""
    for path in dict.fromkeys(run_folder(name) for name in given):
        run = StoredRun(path)
        steps = "no step" if run.step is None else f"{run.step + 1:,} step{'s' if run.step else ''}"
        if not ask(f"Delete {path} ({run.name}, {run.state}, {steps})? This cannot be undone."):
            say(f"{path} stays")
            continue
        rest = store.delete(path)
        kept = f"; {', '.join(other.name for other in rest)} stays there" if rest else ""
        say(f"{path} is deleted{kept}")
