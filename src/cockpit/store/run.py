"""``StoredRun``: a run on disk as a source of series, also while it is being written."""

from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.core.course import filled
from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import COUNTED, SUMMED
from cockpit.core.source import Parts, Series, Steps, Values, taken, total
from cockpit.store import tail
from cockpit.store.contents import READERS, holds_run
from cockpit.store.guard import refusing, refusing_each
from cockpit.store.label import label
from cockpit.store.layout import Field
from cockpit.store.readable import Readable
from cockpit.store.sample import sample
from cockpit.store.table import table
from cockpit.store.template import NO_DETAILS, NO_VALUE
from cockpit.store.track import Track

AT_ONCE = 32  # frames whose tails are in memory at a time
LARGE = 1 << 24  # numbers of a table that must mostly be there


class StoredRun(Readable):
    """A :class:`~cockpit.core.source.Source` over a run's folder; ``refresh`` reads what is new."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(_folder(path))

    @staticmethod
    def at(path: str | Path) -> bool:
        """Whether there is a run: in this folder, or in the folder of this file."""
        return holds_run(_folder(path))

    # ---- about the run

    @property
    def name(self) -> str:
        """What to call the run: as a reader has labelled it, or else as it was given."""
        return label(self.path).name or self.given_name

    @property
    def given_name(self) -> str:
        """The name with which it was started, or else its folder's."""
        return str(self._contents.meta.get("name") or self.path.absolute().name)

    @property
    @refusing
    def metadata(self) -> Mapping[str, Any]:
        """What is known about the run, with its attempts and the number of records lost."""
        found: dict[str, Any] = self._cached("metadata", lambda: self._contents.metadata)
        return found

    @property
    def state(self) -> str:
        """``"running"``, ``"finished"``, ``"ended"`` without close, ``"crashed"``, ``"stale"`` or ``"unreadable"``."""
        return self._contents.state

    @property
    def reason(self) -> str | None:
        """Why it crashed."""
        return self._contents.reason

    @property
    @refusing
    def last_step(self) -> int | None:
        """The last step with a record."""
        found: int | None = self._cached("last", self._last)
        return found

    def _last(self) -> int | None:
        steps = self._contents.columns["step"][self._visible]
        return int(steps.max()) if len(steps) else None

    @property
    @refusing
    def reached(self) -> int | None:
        """The step that the training has reached, with a record or not."""
        found: int | None = self._cached("reached", lambda: self._contents.reached)
        return self.last_step if found is None else found

    @property
    @refusing
    def step(self) -> int | None:
        """The last step that was taken, with a record or not; None before the first."""
        reached, recorded, attempts = self.reached, self.last_step, self._contents.attempts
        if recorded is None and attempts and attempts[0].first_step == reached:
            return None  # its numbers begin at some step, which is yet to be taken
        return taken(reached, recorded)

    @property
    def trouble(self) -> str | None:
        """What is known to be damaged so far; :attr:`damaged` reads everything to tell it."""
        return self._contents.damaged

    @property
    def updated(self) -> float:
        """Time of the last record or sign of life, in seconds since 1970."""
        return self._contents.updated

    @property
    @refusing
    def damaged(self) -> str | None:
        """What could not be read; to tell it, everything is read that has not been yet."""
        with self._lock:
            self._load()
            self._check()
            return self._contents.damaged

    # ---- series

    @property
    @refusing
    def kinds(self) -> Mapping[str, Kind]:
        """Everything that was recorded, in the order of its first appearance."""
        found: dict[str, Kind] = self._cached("kinds", self._kinds)
        return found

    def _kinds(self) -> dict[str, Kind]:
        columns = self._contents.columns
        found: dict[str, Kind] = {}
        layouts, first = np.unique(columns["layout"][self._visible], return_index=True)
        for layout in layouts[np.argsort(first)].tolist():
            for field in columns.fields[layout]:
                found.setdefault(field.name, field.kind)
        return found

    @refusing
    def scalar(self, name: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        kind = self.kinds.get(name)
        if kind is Kind.PER_PARAMETER:
            parts = self.parts(name)
            rule = self.constant(name, "total") or ("sum" if name in SUMMED else "norm")
            return Series(parts.steps, total(parts.values, rule))
        if kind is not Kind.SCALAR:
            return Series(np.empty(0, np.int64), np.empty(0))
        found: Series = self._cached(("whole", name), lambda: self._whole(name))
        return found

    def _whole(self, name: str) -> Series:
        tracked = self._series(("scalar", name), name, lambda field: field.columns, 0)
        return filled(tracked, self._contents.course(name))

    def _series(self, key: tuple[str, ...], name: str, where: Callable[[Field], Any], without: int) -> Series:
        def build() -> Series:
            self._load()
            track = self._track(name, without)
            values: Values = np.full(len(track.steps), np.nan)
            there = np.ones(len(track.steps), dtype=bool)
            for group, numbers in self._numbers(track):
                column = where(group.field)
                if isinstance(column, int):
                    values[group.at] = numbers[:, column]
                elif isinstance(column, dict) and without:  # a number for each parameter
                    chosen = [number for number in column.values() if isinstance(number, int)]
                    values[group.at] = total(numbers[:, chosen], "norm")
                elif without:
                    there[group.at] = False
            return Series(track.steps[there], values[there])

        found: Series = self._cached(key, build)
        return found

    @refusing
    def sample(self, name: str, count: int) -> list[float]:
        """At most ``count`` values of a scalar, spread over the run; the numbers of other steps are not read."""
        with self._lock:
            try:
                return sample(self._contents, self._track(name), self._visible, name, count)
            except Exception:
                return []

    @refusing
    def parts(self, name: str) -> Parts:
        """See :class:`~cockpit.core.source.Source`."""
        if self.kinds.get(name) is not Kind.PER_PARAMETER:
            return Parts(np.empty(0, np.int64), (), np.empty((0, 0)))
        found: Parts = self._cached(("parts", name), lambda: self._parts(name))
        return found

    def _parts(self, name: str) -> Parts:
        self._load()
        track = self._track(name)
        groups = sorted(track.groups, key=lambda group: int(group.at[0]))
        shapes = [group.field.columns if isinstance(group.field.columns, dict) else {} for group in groups]
        keys = tuple(dict.fromkeys(key for shape in shapes for key in shape))
        place = {key: column for column, key in enumerate(keys)}
        size = len(track.steps) * len(keys)
        if size > LARGE > sum(len(group.at) * len(shape) for group, shape in zip(groups, shapes, strict=True)):
            raise CockpitError(f"{name} of {self.path} has {len(keys)} parameters, of which each step names only a few")
        values: Values = np.full((len(track.steps), len(keys)), np.nan)
        for (group, numbers), shape in zip(self._numbers(Track(track.steps, groups)), shapes, strict=True):
            single = {key: column.get("norm") if isinstance(column, dict) else column for key, column in shape.items()}
            chosen = {place[key]: column for key, column in single.items() if isinstance(column, int)}
            values[group.at[:, None], list(chosen)] = numbers[:, list(chosen.values())]
        return Parts(track.steps, keys, values)

    @refusing
    def detail(self, name: str, key: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        return self._series(("detail", name, key), name, lambda field: field.detail_columns.get(key), NO_DETAILS)

    @refusing
    def constant(self, name: str, key: str) -> str | None:
        """See :class:`~cockpit.core.source.Source`."""
        with self._lock:
            groups = self._track(name, NO_DETAILS).groups
            found = [(int(group.at[-1]), group.field.words[key]) for group in groups if key in group.field.words]
            return max(found)[1] if found else None

    @refusing
    def reasons(self, name: str) -> dict[str, list[int]]:
        """See :class:`~cockpit.core.source.Source`."""
        with self._lock:
            return self._track(name).reasons(self._contents.columns.notes)

    # ---- histograms and whole records

    @refusing
    def counted(self, name: str) -> Steps:
        """See :class:`~cockpit.core.source.Source`."""
        if self.kinds.get(name) not in COUNTED:
            return np.empty(0, np.int64)
        found = np.array(sorted(self._places(name)), dtype=np.int64)
        return found

    def _places(self, name: str) -> dict[int, tuple[int, Field]]:
        """Frame and field of each histogram, or of values per sample, by step."""

        def build() -> dict[int, tuple[int, Field]]:
            self._load()
            self._check()
            track = self._track(name, NO_VALUE)
            return {
                int(step): (int(frame), group.field)
                for group in track.groups
                if _many(group.field)
                for step, frame in zip(track.steps[group.at], group.frames, strict=True)
            }

        found: dict[int, tuple[int, Field]] = self._cached(("places", name), build)
        return found

    @refusing
    def histogram(self, name: str, step: int) -> Histogram:
        """See :class:`~cockpit.core.source.Source`."""
        found = self._value(name, step)
        if not isinstance(found, Histogram):
            raise CockpitError(f"{name} at step {step} of {self.path} is damaged: it is no histogram")
        return found

    @refusing
    def samples(self, name: str, step: int) -> Values:
        """See :class:`~cockpit.core.source.Source`."""
        return np.asarray(self._value(name, step), dtype=np.float64).reshape(-1)

    def _value(self, name: str, step: int) -> Any:
        with self._lock:
            try:
                frame, field = self._places(name)[int(step)]
            except KeyError:
                raise CockpitError(f"{name} has no histogram or samples at step {step}; see counted()") from None
            try:
                found = next(self._rebuilt([frame], field.name)).value
            except Exception as error:  # the file changed since it was checked, or is gone
                raise CockpitError(f"{name} at step {step} of {self.path} cannot be read: {error}") from error
            if found is None:
                raise CockpitError(f"{name} at step {step} of {self.path} is damaged; see counted()")
            return found

    @refusing_each
    def records(self) -> Iterator[Record]:
        """All records with everything that belongs to them, and the loss of every other step, in the order of steps."""
        return merge(self._tracked(), *map(self._between, self.kinds), key=attrgetter("step"))

    def _between(self, name: str) -> Iterator[Record]:
        """The numbers of a name at steps at which nothing else was measured."""
        if len(self._contents.course(name)):
            series = self.scalar(name)
            rest = ~np.isin(series.steps, self._track(name).steps)
            for step, value in zip(series.steps[rest].tolist(), series.values[rest].tolist(), strict=True):
                yield Record(step, name, Kind.SCALAR, value)

    def _tracked(self) -> Iterator[Record]:
        with self._lock:
            self._load()
            self._check()
            visible = self._visible.copy()
            visible[self._contents.columns.courses(visible)] = False
            frames = np.flatnonzero(visible)
            order = frames[np.argsort(self._contents.columns["step"][frames], kind="stable")].tolist()
        waiting: dict[str, Record] = {}
        step: int | None = None
        for begin in range(0, len(order), AT_ONCE):
            with self._lock:
                try:
                    some = list(self._rebuilt(order[begin : begin + AT_ONCE]))
                except Exception as error:
                    raise CockpitError(f"the records of {self.path} cannot be read: {error}") from error
            for record in some:
                if record.step != step:
                    yield from waiting.values()
                    waiting, step = {}, record.step
                waiting[record.name] = record
        yield from waiting.values()

    def _rebuilt(self, frames: list[int], name: str | None = None) -> Iterator[Record]:
        self._load()
        columns = self._contents.columns
        for frame, found in self._contents.tails(frames):
            step, layout = int(columns["step"][frame]), int(columns["layout"][frame])
            numbers = columns.numbers(layout, np.array([frame]))[0].tolist()
            chunks = self._chunks(frame, found)
            for field, note in columns.of(frame):
                if name is None or field.name == name:
                    yield field.record(step, numbers, chunks, note)

    def _chunks(self, frame: int, found: bytes | None) -> list[bytes]:
        try:
            return tail.split(found)
        except Exception:  # damaged in whatever way
            self._spoiled(self._contents.blank([frame]))
            return []

    @refusing
    def output(self) -> dict[int, dict[str, Any]]:
        """Return ``{step: {name: value}}`` of the tracked steps."""
        found: dict[int, dict[str, Any]] = {}
        for record in self._tracked():
            found.setdefault(record.step, {})[record.name] = record.value
        return found

    @refusing
    def table(self, name: str | None = None) -> dict[str, NDArray[Any]]:
        """Return columns for pandas or polars.

        Args:
            name: None: the step, all scalars and totals. A value per parameter: the step and a column for each one.
                A histogram: a row for each bin that is not empty. A value per sample: a row for each sample.
        """
        return table(self, name)

    def __repr__(self) -> str:
        return f"<cockpit.store.StoredRun {self.name!r}, {self.state}, up to step {self.last_step}>"


def _many(field: Field) -> bool:
    """Whether this is a histogram or an array of values per sample."""
    marked = isinstance(field.value, list) and field.value[0] in ("h", "H")
    return marked or field.kind is Kind.PER_SAMPLE


def _folder(path: str | Path) -> Path:
    path = Path(path)
    return path.parent if path.name in READERS and not path.is_dir() else path
