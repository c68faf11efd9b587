"""What every backend of the store must do; a backend's test file inherits this class and names the backend."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.killing import check, kill

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.store import StoredRun, Writer, create
from cockpit.store.item import Item, Layout

EDGES = np.linspace(-1, 1, 5)
UNEVEN = np.array([0.0, 0.1, 1.0, 10.0, 11.0])


def loss(step: int, value: float | None = None, reason: str | None = None) -> Record:
    return Record(step, "Loss", Kind.SCALAR, float(step) if value is None and reason is None else value, reason)


def flat(step: int) -> Histogram:
    return Histogram((EDGES,), {"0.weight": np.array([0, step, 2**40, 1]), "0.bias": np.array([0, 1, 0, 0])})


def square(step: int) -> Histogram:
    return Histogram((EDGES, UNEVEN), {"0.weight": step * np.eye(4, dtype=np.int64), "empty": np.zeros((4, 4), int)})


def frame(step: int) -> list[Record]:
    """One of everything; what is undefined changes from step to step."""
    there = step % 3 != 1
    error = {"0.weight": 0.1, "0.bias": nan}
    details = {"curvature": "ggn", "standard_error": error, "products": step, "sure": True}
    summary = {"0.weight": {"norm": 3.0, "raw": np.arange(4, dtype=np.float32)}, "0.bias": {"norm": 4.0, "raw": None}}
    return [
        Record(step, "Loss", Kind.SCALAR, [0.1 + step, nan, inf][step % 3]),
        Record(step, "Alpha", Kind.SCALAR, 0.3 if there else None, None if there else "no step"),
        Record(step, "GradNorm", Kind.PER_PARAMETER, {"0.weight": 0.1 * step, "0.bias": 4.0}),
        Record(step, "Trace", Kind.PER_PARAMETER, {"0.weight": 1.0, "0.bias": -inf} if there else None,
               "not finite: 0.bias" if there else "no curvature", details if there else {}),
        Record(step, "Odd", Kind.PER_PARAMETER, {"0.weight": None, "0.bias": "text", "c": 2**60, "d": [1, "x", None]}),
        Record(step, "Parameters", Kind.PER_PARAMETER, summary),
        Record(step, "Hist1d", Kind.HISTOGRAM, flat(step) if there else None, None if there else "no batch"),
        Record(step, "Hist2d", Kind.HISTOGRAM, square(step)),
        Record(step, "Losses", Kind.PER_SAMPLE, np.linspace(0, 1, 7) * step),
    ]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Equal, NaN and arrays included."""
    if isinstance(one, Record) and isinstance(other, Record):
        return all(same(getattr(one, key), getattr(other, key)) for key in Record.__slots__)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))


def until(run: StoredRun, step: int, seconds: float = 5.0) -> None:
    """Follow a run until it shows a step."""
    end = time.monotonic() + seconds
    while run.last_step != step:
        assert time.monotonic() < end, f"step {step} did not appear, only {run.last_step}"
        run.refresh()
        time.sleep(0.01)


class StoreContract:
    """Round trip, following, continuing, kills."""

    backend: str

    @pytest.fixture(autouse=True)
    def _choose(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COCKPIT_STORE", self.backend)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "run"

    @pytest.fixture
    def writer(self, folder: Path) -> Iterator[Writer]:
        writer = create(folder, {"name": "test", "steps": 100, "git": None})
        assert writer.problem is None
        yield writer
        writer.close()

    def write(self, folder: Path, steps: Any, first: int = 0, value: float | None = None) -> None:
        writer = create(folder, {"git": None}, first)
        for step in steps:
            writer.append([loss(step, value)])
        writer.close()
        assert writer.problem is None
        assert writer.lost == 0

    def test_every_kind_comes_back_as_it_was(self, folder: Path, writer: Writer) -> None:
        records = [record for step in range(7) for record in frame(step)]
        for step in range(7):
            writer.append(frame(step))
        writer.close()
        found = list(StoredRun(folder).records())
        assert len(found) == len(records)
        for one, other in zip(found, records, strict=True):
            assert same(one, other), (one, other)

    def test_it_is_the_same_source_as_the_records_in_memory(self, folder: Path, writer: Writer) -> None:
        records = [record for step in range(7) for record in frame(step)]
        for step in range(7):
            writer.append(frame(step))
        writer.close()
        run, memory = StoredRun(folder), Recorded(records)
        assert run.kinds == memory.kinds
        for name in [*memory.kinds, "unknown"]:
            for one, other in ((run.scalar(name), memory.scalar(name)), (run.parts(name), memory.parts(name))):
                assert same(one.steps, other.steps), name
                assert same(one.values, other.values), name
            assert run.parts(name).keys == memory.parts(name).keys
            assert same(run.counted(name), memory.counted(name))
            assert run.reasons(name) == memory.reasons(name)
            for key in ("curvature", "standard_error", "products", "sure", "unknown"):
                assert run.constant(name, key) == memory.constant(name, key)
                one, other = run.detail(name, key), memory.detail(name, key)
                assert same(one.steps, other.steps), (name, key)
                assert same(one.values, other.values), (name, key)
        for name in ("Hist1d", "Hist2d"):
            assert all(run.histogram(name, step) == memory.histogram(name, step) for step in run.counted(name))
        assert run.counted("Losses").tolist() == list(range(7))
        assert all(same(run.samples("Losses", step), memory.samples("Losses", step)) for step in range(7))
        assert run.output().keys() == set(range(7))

    def test_a_reader_follows(self, folder: Path, writer: Writer) -> None:
        run = StoredRun(folder)
        assert run.state == "running"
        assert run.last_step is None
        for step in range(5):
            writer.append([loss(step)])
            writer.step = step + 10
            begin, version = time.monotonic(), run.version
            until(run, step)
            assert time.monotonic() - begin < 0.9
            assert run.version > version
            assert run.scalar("Loss").values.tolist() == list(range(step + 1))
        until_reached(run, 14)
        writer.close()
        assert run.refresh()
        assert not run.refresh()
        assert (run.state, run.reason, run.reached, run.damaged) == ("finished", None, 14, None)

    def test_only_what_is_new_is_read(self, folder: Path, writer: Writer) -> None:
        writer.append([loss(0)])
        run = StoredRun(folder)
        until(run, 0)
        run.scalar("Loss")
        asked: list[int] = []
        numbers = run._contents.reader.numbers
        run._contents.reader.numbers = lambda places: asked.extend(places) or numbers(places)  # type: ignore
        writer.append([loss(1)])
        until(run, 1)
        assert run.scalar("Loss").values.tolist() == [0.0, 1.0]
        assert len(asked) == 1

    def test_a_later_record_replaces_an_earlier_one(self, folder: Path, writer: Writer) -> None:
        writer.append([loss(3, 1.0), loss(3, 2.0)])
        writer.append([loss(1, 1.0)])
        writer.append([Record(3, "Alpha", Kind.SCALAR, 0.5), loss(3, 3.0)])
        writer.close()
        run = StoredRun(folder)
        assert run.output() == {1: {"Loss": 1.0}, 3: {"Loss": 3.0, "Alpha": 0.5}}
        assert run.scalar("Loss").values.tolist() == [1.0, 3.0]

    def test_metadata_is_merged_and_survives_anything(self, folder: Path, writer: Writer) -> None:
        writer.update(cost={"elapsed": nan}, odd=object(), circle=[])
        circle: list[Any] = []
        circle.append(circle)
        writer.update(circle=circle, name="ren\ud800amed \x00")
        writer.close("crashed", "a reason \ud800")
        run = StoredRun(folder)
        assert run.name == "ren\ud800amed \x00"
        assert run.metadata["steps"] == 100
        assert run.metadata["pid"] == os.getpid()
        assert run.metadata["packages"]["numpy"] == np.__version__
        assert run.metadata["circle"] == "[[...]]"
        assert (run.state, run.reason) == ("crashed", "a reason \\ud800")

    def test_values_that_cannot_be_stored_cost_only_themselves(
        self, folder: Path, writer: Writer, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Awkward:
            def __str__(self) -> str:
                raise RuntimeError("no")

        writer.append([loss(0), Record(0, "A", Kind.SCALAR, 1.0)])
        writer.append([Record(1, "A", Kind.SCALAR, Awkward())])
        time.sleep(0.3)
        writer.append([Record(2**70, "A", Kind.SCALAR, 2.0)])
        time.sleep(0.5)
        writer.append([loss(2), Record(2, "A", Kind.SCALAR, 1.0)])
        writer.close()
        run = StoredRun(folder)
        assert run.scalar("Loss").steps.tolist() == [0, 2]
        assert writer.lost == run.metadata["lost"] == 2
        assert "cannot be stored" in caplog.text

    def test_one_that_cannot_be_stored_leaves_those_beside_it_readable(self, folder: Path, writer: Writer) -> None:
        class Awkward:
            def __str__(self) -> str:
                raise RuntimeError("no")

        writer.append([loss(0), loss(1), Record(2, "A", Kind.SCALAR, Awkward()), loss(2)])
        writer.append([loss(3)])
        writer.append([loss(4), Record(4, "B", Kind.SCALAR, 1.0)])
        writer.close()
        run = StoredRun(folder)
        assert run.scalar("Loss").steps.tolist() == [0, 1, 2, 3, 4]
        assert run.scalar("B").steps.tolist() == [4]
        assert writer.lost == 1

    def test_a_step_that_cannot_be_stored_leaves_those_beside_it_readable(self, folder: Path, writer: Writer) -> None:
        writer.append([loss(0), Record(2**70, "A", Kind.SCALAR, 2.0), Record(2**70, "B", Kind.SCALAR, 2.0)])
        writer.append([loss(1), Record(1, "A", Kind.SCALAR, 1.0)])
        writer.close()
        run = StoredRun(folder)
        assert run.scalar("Loss").steps.tolist() == [0, 1]
        assert run.scalar("A").steps.tolist() == [1]
        assert (writer.lost, run.state) == (2, "finished")

    def test_frames_whose_layout_cannot_be_stored_are_not_written(
        self, folder: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = writer._pump._file.write

        def picky(items: Sequence[Item]) -> None:
            if any(isinstance(item, Layout) and '"B"' in item.text for item in items):
                raise ValueError("no")
            write(items)

        monkeypatch.setattr(writer._pump._file, "write", picky)
        writer.append([loss(0), Record(1, "B", Kind.SCALAR, 1.0), Record(2, "B", Kind.SCALAR, 1.0), loss(3)])
        writer.append([loss(4)])
        writer.close()
        run = StoredRun(folder)
        assert run.scalar("Loss").steps.tolist() == [0, 3, 4]
        assert (list(run.kinds), run.damaged) == (["Loss"], None)
        assert writer.lost == 2

    # ---- continuing

    def test_a_continued_run_replaces_what_it_covers(self, folder: Path) -> None:
        self.write(folder, range(10))
        self.write(folder, range(6, 8), first=6, value=100.0)
        run = StoredRun(folder)
        assert run.scalar("Loss").steps.tolist() == list(range(10))
        assert run.scalar("Loss").values.tolist() == [0, 1, 2, 3, 4, 5, 100, 100, 8, 9]
        assert [attempt["first_step"] for attempt in run.metadata["attempts"]] == [0, 6]

    def test_steps_that_are_passed_without_a_record_are_replaced_too(self, folder: Path) -> None:
        self.write(folder, range(10))
        writer = create(folder, {"git": None}, 4)
        writer.append([loss(5, 50.0)])
        writer.step = 7  # steps 4 to 6 are done
        writer.close()
        assert StoredRun(folder).scalar("Loss").steps.tolist() == [0, 1, 2, 3, 5, 7, 8, 9]

    def test_a_run_that_begins_again_hides_everything_before(self, folder: Path) -> None:
        writer = create(folder, {"git": None})
        writer.append([loss(2), Record(5, "Old", Kind.SCALAR, 1.0)])
        writer.close()
        create(folder, {"git": None}).close()
        assert list(StoredRun(folder).kinds) == ["Loss", "Old"], "nothing recorded, nothing replaced"
        self.write(folder, [1])
        run = StoredRun(folder)
        assert run.scalar("Loss").steps.tolist() == [1]
        assert list(run.kinds) == ["Loss"]
        assert run.last_step == run.reached == 1

    def test_a_continued_run_may_add_to_earlier_steps(self, folder: Path) -> None:
        self.write(folder, range(4))
        writer = create(folder, {"git": None}, 4)
        writer.append([Record(1, "accuracy", Kind.SCALAR, 0.5), loss(2, 20.0)])
        writer.append([loss(4)])
        writer.close()
        run = StoredRun(folder)
        assert run.scalar("Loss").values.tolist() == [0, 1, 20, 3, 4]
        assert run.scalar("accuracy").steps.tolist() == [1]

    def test_three_attempts(self, folder: Path) -> None:
        self.write(folder, range(6))
        self.write(folder, range(2, 5), first=2, value=20.0)
        self.write(folder, range(4, 6), first=4, value=40.0)
        assert StoredRun(folder).scalar("Loss").values.tolist() == [0, 1, 20, 20, 40, 40]

    def test_a_reader_sees_the_run_continue(self, folder: Path) -> None:
        self.write(folder, range(4))
        run = StoredRun(folder)
        assert (run.state, run.last_step) == ("finished", 3)
        writer = create(folder, {"git": None}, 2)
        run.refresh()
        assert run.state == "running"
        writer.append([loss(2, 20.0)])
        end = time.monotonic() + 5
        while run.scalar("Loss").values.tolist() != [0, 1, 20, 3]:
            assert time.monotonic() < end
            run.refresh()
        writer.close()

    def test_undefined_values_keep_one_layout(self, folder: Path, writer: Writer) -> None:
        for step in range(30):
            writer.append(frame(step))
        writer.close()
        assert len(StoredRun(folder)._contents.columns.fields) == 1

    def intact(self, whole: bytes, size: int) -> bool:
        """Whether a file that was cut here looks like one that was never longer."""
        return size == 0

    # ---- kills

    @pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL on Windows")
    def test_killed_at_any_moment_it_opens_and_nothing_is_wrong(self, folder: Path) -> None:
        moments = np.random.default_rng(0)
        first = 0
        for attempt in range(1, 13):
            told = kill(folder, first, attempt, 0.35 * moments.random())
            run = StoredRun(folder)
            assert check(run, told, attempt) < 1.0
            last = -1 if run.last_step is None else run.last_step
            first = int(moments.integers(max(0, last - 50), last + 2))
        assert run.reason == "ended without close"

    def test_a_torn_end_does_not_matter(self, folder: Path) -> None:
        """Cut the file at many places: all that is told is right, and the run can be continued."""
        self.write(folder, range(20))
        path = StoredRun(folder)._contents.reader.path
        whole, pulse = path.read_bytes(), (folder / "run.lock").read_bytes()
        for size in range(0, len(whole), max(1, len(whole) // 40)):
            path.write_bytes(whole[:size])
            run = StoredRun(folder)
            series = run.scalar("Loss")
            assert series.values.tolist() == series.steps.tolist()
            assert run.damaged or self.intact(whole, size), size
            writer = create(folder, {"git": None}, 20)
            writer.append([loss(20)])
            writer.close()
            after = StoredRun(writer.folder).scalar("Loss")
            assert after.steps.tolist()[-1] == 20
            assert set(series.steps.tolist()) <= set(after.steps.tolist()) or writer.folder != folder
            if writer.folder == folder and len(after) < 21:
                assert "21 records were written" in str(StoredRun(folder).damaged), "the gap stays known"
            (folder / "run.lock").write_bytes(pulse)
            for other in folder.parent.iterdir():
                if other != folder:
                    remove(other)

    def test_zeros_in_the_middle_are_noticed(self, folder: Path) -> None:
        writer = create(folder, {"git": None})
        for step in range(300):
            writer.append([loss(step), *(Record(step, f"s{i}", Kind.SCALAR, float(step)) for i in range(40))])
        writer.close()
        path = StoredRun(folder)._contents.reader.path
        data = bytearray(path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 5000] = bytes(5000)
        path.write_bytes(data)
        run = StoredRun(folder)
        for name in ("Loss", "s39"):
            series = run.scalar(name).defined()
            assert series.values.tolist() == series.steps.tolist()
        assert 0 < len(series) < 300
        assert run.damaged
        moved = create(folder, {"git": None}, 300)
        moved.close()
        assert moved.folder == folder.with_name("run-2")

    @pytest.mark.parametrize("content", [b"hello, world\n" * 1000, b"x", bytes(8192)])
    def test_a_foreign_file_is_left_alone(self, folder: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
        self.write(folder, range(3))
        path = StoredRun(folder)._contents.reader.path
        path.write_bytes(content)
        (folder / "run.lock").unlink()
        run = StoredRun(folder)
        assert run.damaged
        assert (run.state, list(run.kinds), list(run.records())) == ("unreadable", [], [])
        writer = create(folder, {"git": None})
        writer.append([loss(0)])
        writer.close()
        assert writer.folder == folder.with_name("run-2")
        assert path.read_bytes() == content
        assert "this run goes to" in caplog.text
        assert StoredRun(writer.folder).scalar("Loss").steps.tolist() == [0]


def until_reached(run: StoredRun, step: int) -> None:
    end = time.monotonic() + 5
    while run.reached != step:
        assert time.monotonic() < end, run.reached
        run.refresh()
        time.sleep(0.02)


def remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
