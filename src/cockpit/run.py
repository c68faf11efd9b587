"""``open_run``: read a run on disk as tables and series, without torch."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cockpit.core.errors import CockpitError, unknown
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.plain import text
from cockpit.core.record import Record
from cockpit.core.recorded import COUNTED
from cockpit.core.source import Parts, Series, Steps, Values
from cockpit.plots.reading import Log, from_path
from cockpit.store.run import StoredRun


def open_run(path: str | Path) -> "Run":
    """Open a run: its folder, the database file in it, or a JSON log of the original Cockpit."""
    return Run(from_path(path))


class Run:
    """A recorded run, finished or growing; :meth:`refresh` reads what is new.

    It is a :class:`~cockpit.core.source.Source`, which panels and plots take.
    """

    def __init__(self, source: StoredRun | Log) -> None:
        self._source = source

    # ---- what it is

    @property
    def name(self) -> str:
        """Name of the run."""
        return self._source.name

    @property
    def path(self) -> Path | None:
        """Folder of the run, or file of a JSON log."""
        return self._source.path

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Model, optimizers, host, versions and more; empty for a JSON log."""
        return self._source.metadata

    @property
    def state(self) -> str:
        """``"running"``, ``"finished"``, ``"ended"`` (without close), ``"crashed"``, ``"stale"`` (no sign of life),
        ``"unreadable"``, or ``"log"`` for a JSON log.
        """
        return self._source.state

    @property
    def reason(self) -> str | None:
        """Why the run crashed; None if it did not."""
        return self._source.reason

    @property
    def reached(self) -> int | None:
        """Steps taken, tracked or not: the number of the next step."""
        return getattr(self._source, "reached", None)

    @property
    def updated(self) -> float | None:
        """Time of the last sign of life, in seconds since 1970."""
        return getattr(self._source, "updated", None)

    @property
    def version(self) -> int | None:
        """A number that changes when :meth:`refresh` reads anything new; None for a log."""
        return getattr(self._source, "version", None)

    @property
    def damaged(self) -> str | None:
        """What could not be read, and why; None if all could."""
        return getattr(self._source, "damaged", None)

    def explain(self) -> str:
        """Return what was covered and what was not: ``pit.explain()`` of the training."""
        return str(self.metadata.get("coverage") or f"{self.name}: the run does not say what was covered")

    # ---- what it holds

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Names of all that was recorded, with the kind of each value."""
        return self._source.kinds

    @property
    def names(self) -> list[str]:
        """Names of all that was recorded."""
        return list(self.kinds)

    @property
    def steps(self) -> list[int]:
        """Recorded steps, in order."""
        recorded: set[int] = set()
        for name, kind in self.kinds.items():
            recorded.update(self.counted(name).tolist() if kind in COUNTED else self.scalar(name).steps.tolist())
            recorded.update(step for steps in self.reasons(name).values() for step in steps)
        return sorted(recorded)

    def __getitem__(self, name: str) -> Series:
        """Return a scalar, or the total of a per-parameter quantity, over steps: ``run["Loss"].values``."""
        self._check(name)
        if self.kinds[name] not in (Kind.SCALAR, Kind.PER_PARAMETER):
            raise CockpitError(f"{name} is a {self.kinds[name].value}, not a number per step; use table({name!r})")
        return self.scalar(name)

    def __contains__(self, name: object) -> bool:
        return name in self.kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def table(self, name: str | None = None) -> dict[str, NDArray[Any]]:
        """Return columns by name, as pandas and polars take them.

        The first is ``step``. A metric or parameter of that name becomes ``step (metric)`` or ``step (parameter)``.

        Args:
            name: None: all numbers and totals. A per-parameter quantity: a column for each parameter. A histogram: a
                row for each bin that is not empty.
        """
        if name is not None:
            self._check(name)
        return self._source.table(name)

    def to_pandas(self, name: str | None = None) -> Any:
        """Return :meth:`table` as a ``pandas.DataFrame``."""
        try:
            import pandas
        except ImportError:
            raise CockpitError("pandas is not installed; run: pip install pandas") from None
        return pandas.DataFrame(self.table(name))

    def to_polars(self, name: str | None = None) -> Any:
        """Return :meth:`table` as a ``polars.DataFrame``."""
        try:
            import polars
        except ImportError:
            raise CockpitError("polars is not installed; run: pip install polars") from None
        return polars.DataFrame({text(heading): column for heading, column in self.table(name).items()})

    def output(self) -> dict[int, dict[str, Any]]:
        """Return ``{step: {name: value}}``, as ``pit.get_output()`` does."""
        return self._source.output()

    def records(self) -> Iterator[Record]:
        """Return all records, with reasons and details."""
        return self._source.records()

    def refresh(self) -> bool:
        """Read what is new; return whether anything was."""
        return self._source.refresh()

    def _check(self, name: str) -> None:
        if name not in self.kinds:
            raise unknown("quantity", name, self.kinds)

    # ---- as a source

    def scalar(self, name: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        return self._source.scalar(name)

    def parts(self, name: str) -> Parts:
        """See :class:`~cockpit.core.source.Source`."""
        return self._source.parts(name)

    def detail(self, name: str, key: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        return self._source.detail(name, key)

    def constant(self, name: str, key: str) -> str | None:
        """See :class:`~cockpit.core.source.Source`."""
        return self._source.constant(name, key)

    def counted(self, name: str) -> Steps:
        """See :class:`~cockpit.core.source.Source`."""
        return self._source.counted(name)

    def histogram(self, name: str, step: int) -> Histogram:
        """See :class:`~cockpit.core.source.Source`."""
        return self._source.histogram(name, step)

    def samples(self, name: str, step: int) -> Values:
        """See :class:`~cockpit.core.source.Source`."""
        return self._source.samples(name, step)

    def reasons(self, name: str) -> Mapping[str, list[int]]:
        """See :class:`~cockpit.core.source.Source`."""
        return self._source.reasons(name)

    # ---- how it shows itself

    def show(self, follow: bool = False) -> None:
        """Show the run: a picture in a notebook, a screen of text in a terminal.

        ``follow`` updates it until the run ends; in a notebook that happens in the background.
        """
        from cockpit.plots import notebook

        if notebook.inside():
            notebook.show(self, follow)
            return
        from cockpit.plots import show
        from cockpit.plots.console import console

        (show.follow if follow else show.show)(self, console())

    def _repr_html_(self) -> str:
        from cockpit.plots.notebook import html

        return html(self)

    def __repr__(self) -> str:
        steps = self.steps
        reach = (
            f"{len(steps)} step{'s' * (len(steps) > 1)} recorded, {steps[0]} to {steps[-1]}"
            if steps
            else "no step recorded"
        )
        return f"<cockpit run {self.name!r}, {self.state}, {reach}, {len(self.kinds)} quantities>"
