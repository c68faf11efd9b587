"""What a sweep says while it works, on stderr: a bar on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from cockpit.bench.sweep.telling import duration
from cockpit.results.sweeps.status import Count, seconds_left

Progress = Callable[[Callable[[], Count]], None]
PAUSE_BAR, PAUSE_LINE = 0.5, 10.0  # seconds from one sign to the next
QUIET = 60.0  # seconds from one line to the next that says the same


@contextmanager
def shown(console: Console, slots: int) -> Iterator[Progress]:
    """Progress on a console, as it can show it."""
    if not console.is_terminal:
        yield _now_and_then(PAUSE_LINE, _Lines(console, slots))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("sweep", said="")

        def move(count: Count) -> None:
            bars.update(task, completed=len(count.rows), total=count.distinct, said=told(count, slots))

        yield _now_and_then(PAUSE_BAR, move)


class _Lines:
    """Says how far a sweep is when that has changed; now and then that it has not."""

    def __init__(self, console: Console, slots: int) -> None:
        self._console, self._slots = console, slots
        self._ended, self._last = -1, 0.0

    def __call__(self, count: Count) -> None:
        now = time.monotonic()
        if len(count.rows) != self._ended or now - self._last >= QUIET:
            self._ended, self._last = len(count.rows), now
            self._console.print(told(count, self._slots), highlight=False, soft_wrap=True)


def told(count: Count, slots: int) -> str:
    """How far a sweep is, in a line."""
    states = count.states()
    said = [f"{len(count.rows):,} of {'at most ' if count.unknown else ''}{count.distinct:,} runs"]
    said += [f"{states[state]:,} {state}" for state in ("diverged", "failed") if states[state]]
    left = seconds_left(count)
    if left:
        said.append(f"{duration(left / slots)} left")
    return ", ".join(said)


def _now_and_then(pause: float, say: Callable[[Count], object]) -> Progress:
    last = time.monotonic()

    def at(count: Callable[[], Count]) -> None:
        nonlocal last
        if time.monotonic() - last >= pause:
            last = time.monotonic()
            say(count())

    return at
