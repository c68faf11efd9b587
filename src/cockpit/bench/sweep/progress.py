"""What a sweep says while it works, on stderr: a bar on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from cockpit.bench.sweep.telling import duration
from cockpit.results.sweeps.status import Count, seconds_left

Going = Sequence[tuple[int, int]]  # epochs of runs that go alone: trained, and in all
Progress = Callable[[Callable[[], Count], Going], None]
PAUSE_BAR, PAUSE_LINE = 0.5, 10.0  # seconds from one sign to the next; from line to line they become more
LONGEST = 60.0


@contextmanager
def shown(console: Console, slots: int) -> Iterator[Progress]:
    """Progress on a console, as it can show it."""
    if not console.is_terminal:

        def write(count: Count, going: Going) -> None:
            console.print(told(count, slots, going), highlight=False, soft_wrap=True)

        yield _now_and_then(PAUSE_LINE, write, 2.0)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("sweep", said="")

        def move(count: Count, going: Going) -> None:
            bars.update(task, completed=len(count.rows), total=count.distinct, said=told(count, slots, going))

        yield _now_and_then(PAUSE_BAR, move)


def told(count: Count, slots: int, going: Going = ()) -> str:
    """How far a sweep is, in a line."""
    states = count.states()
    said = [f"{len(count.rows):,} of {'at most ' if count.unknown else ''}{count.distinct:,} runs"]
    said += [f"{states[state]:,} {state}" for state in ("diverged", "failed") if states[state]]
    said += [f"{len(going)} going after {_epochs(going)} epochs"] if going else []
    left = seconds_left(count)
    if left:
        said.append(f"{duration(left / slots)} left")
    return ", ".join(said)


def _epochs(going: Going) -> str:
    """The least and the most epochs that runs have been trained for, and those they have in all."""
    trained, wanted = zip(*sorted(going), strict=True)
    parts = [f"{low}" if low == high else f"{low} to {high}" for low, high in (_ends(trained), _ends(wanted))]
    return " of ".join(parts)


def _ends(numbers: Sequence[int]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _now_and_then(pause: float, say: Callable[[Count, Going], object], growth: float = 1.0) -> Progress:
    last = time.monotonic()

    def at(count: Callable[[], Count], going: Going) -> None:
        nonlocal last, pause
        if time.monotonic() - last >= pause:
            last, pause = time.monotonic(), min(growth * pause, LONGEST)
            say(count(), going)

    return at
