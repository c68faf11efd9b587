"""How far runs are: a bar on a terminal, elsewhere a line for each epoch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column

from cockpit.results.result import Result

TICKS = 10  # steps from one movement of the bar to the next


class Progress(Protocol):
    """What a runner tells while it works; methods are called in this order."""

    def begin(self, title: str, steps: int, done: int) -> None:
        """A run begins, or goes on after some steps."""

    def step(self) -> None:
        """A step was trained."""

    def epoch(self, epoch: int, result: Result) -> None:
        """An epoch was judged; the curves end with it."""

    def end(self, said: str) -> None:
        """A run is over, and this is to be said about it."""


class Silent:
    """Says nothing."""

    def begin(self, title: str, steps: int, done: int) -> None:
        """See :class:`Progress`."""

    def step(self) -> None:
        """See :class:`Progress`."""

    def epoch(self, epoch: int, result: Result) -> None:
        """See :class:`Progress`."""

    def end(self, said: str) -> None:
        """See :class:`Progress`."""


class Lines(Silent):
    """A line for each epoch."""

    def __init__(self, write: Callable[[str], Any] = print) -> None:
        self._write, self._title = write, ""

    def begin(self, title: str, steps: int, done: int) -> None:
        """See :class:`Progress`."""
        self._title = title

    def epoch(self, epoch: int, result: Result) -> None:
        """See :class:`Progress`."""
        self._write(f"{self._title}  epoch {epoch}/{result.epochs}  {described(result)}")

    def end(self, said: str) -> None:
        """See :class:`Progress`."""
        self._write(said)


class Bar:
    """A bar for each run: epoch, loss, accuracy, time that remains."""

    def __init__(self, console: Console, bars: Bars) -> None:
        self._console, self._bars, self._task, self._ticks = console, bars, TaskID(0), 0

    def begin(self, title: str, steps: int, done: int) -> None:
        """See :class:`Progress`."""
        self._task, self._ticks = self._bars.add_task(title, total=max(steps, 1), completed=done, said=""), 0

    def step(self) -> None:
        """See :class:`Progress`."""
        self._ticks += 1
        if self._ticks == TICKS:
            self._bars.advance(self._task, TICKS)
            self._ticks = 0

    def epoch(self, epoch: int, result: Result) -> None:
        """See :class:`Progress`."""
        self._bars.advance(self._task, self._ticks)
        self._ticks = 0
        self._bars.update(self._task, said=f"epoch {epoch}/{result.epochs}  {described(result)}")

    def end(self, said: str) -> None:
        """See :class:`Progress`."""
        if self._task in self._bars.task_ids:
            self._bars.remove_task(self._task)
        self._console.print(said, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def shown(console: Console) -> Iterator[Progress]:
    """Progress on a console, as it can show it."""
    if not console.is_terminal:
        yield Lines(lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True))
        return
    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)  # a narrow terminal cuts here, not the time that remains
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}", markup=False, table_column=rest),
    )
    with Bars(*columns, console=console, transient=True, expand=True) as bars:
        yield Bar(console, bars)


def described(result: Result) -> str:
    """The last values of the curves, in a few words."""
    last = {metric: values[-1] for metric, values in result.curves.items() if values}
    loss = "  ".join(f"{name} {last[name]:.4g}" for name in ("train_loss", "test_loss") if name in last)
    accuracy = f"  test_accuracy {last['test_accuracy']:.2%}" if "test_accuracy" in last else ""
    return (loss + accuracy).replace("_", " ")
