"""The state of a run in one screen."""

from __future__ import annotations

import shutil
import time
from io import StringIO
from math import nan
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.plots.samples import COST, LATER, METADATA, frame, records

from cockpit import store
from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.plots import show
from cockpit.plots.deck import GROUPS
from cockpit.plots.summary import summary
from cockpit.store.run import StoredRun


class Flight(Recorded):
    """A run that grows each time one looks at it, and ends."""

    path, state, reason, damaged = None, "running", None, None
    reached, updated, left = 10, METADATA["started"] + 50.0, 0

    def refresh(self) -> bool:
        self.left -= 1
        self.updated += 1
        self.state = "running" if self.left > 0 else "finished"
        return True


def flight(**known: Any) -> Flight:
    metadata = {**METADATA, **known.pop("metadata", {})}
    made = Flight(records(), known.pop("name", "digits"), metadata)
    for name, value in known.items():
        setattr(made, name, value)
    return made


def shown(run: Any, width: int = 80, height: int = 60, terminal: bool = False) -> str:
    paper = StringIO()
    show.show(run, Console(file=paper, width=width, height=height, color_system=None, force_terminal=terminal))
    return paper.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_everything_is_there_and_fits(width: int) -> None:
    found = shown(flight(), width)
    words = "digits RUNNING 50% Sequential 2,698 SGD 0.1 CrossEntropyLoss cpu laptop train.py 0123abcdef main changes"
    for word in [
        *words.split(),
        "step 9 of 20",
        "0:50 elapsed",
        "0:50 left",
        "10 steps tracked",
        "tracking adds 11.1%",
    ]:
        assert word in found
    assert f"Undefined: Alpha at step 9: {LATER}." in found
    assert all(len(line) <= width for line in found.splitlines())


def test_what_everybody_watches_comes_first() -> None:
    found = shown(flight())
    assert found.index("Loss") < found.index("Fuel") < found.index("STEP SIZE") < found.index("CURVATURE")
    assert "tracking_seconds" not in found, "the heading tells the cost"


def test_a_small_terminal_gets_no_empty_lines() -> None:
    roomy, tight = (shown(flight(), height=height, terminal=True) for height in (60, 24))
    assert len(tight.splitlines()) <= 24 < len(roomy.splitlines())


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"state": "crashed", "reason": "RuntimeError: no"}, "digits  CRASHED  RuntimeError: no"),
        ({"state": "finished", "reached": 20}, "100%"),
        ({"state": "finished", "reached": 20}, "0.4 steps/s"),
        ({"metadata": {"steps": None}}, "step 9, 0:50 elapsed, 0.2 steps/s"),
        ({"metadata": {"lost": 7}}, "7 records were lost"),
        ({"damaged": "3 frames"}, "damaged: 3 frames"),
        ({"updated": METADATA["started"] + 7300}, "2:01:40 elapsed"),
        ({"name": "a\x1b[31m"}, "a?[31m"),
    ],
)
def test_what_is_said(known: dict[str, Any], said: str) -> None:
    assert said in shown(flight(**known))


def test_little_is_known() -> None:
    found = shown(Recorded(records(), "a log"))
    assert found.startswith("a log  IN MEMORY\nstep 9\n")
    assert "No step has been tracked yet." in shown(Recorded([], "new"))


@pytest.mark.parametrize("width", [20, 34, 40, 60, 80])
@pytest.mark.parametrize("metadata", [{}, {"steps": None}])
def test_a_narrow_terminal(width: int, metadata: dict[str, Any]) -> None:
    """Nothing runs over the edge or is cut in the middle of a word; the name and the last value always stay."""
    found = shown(flight(metadata=metadata), width)
    assert all(cell_len(line) <= width for line in found.splitlines())
    line = next(line for line in found.splitlines() if line.strip().startswith("Loss"))
    assert " 0.2" in line
    mottos = [question for question, _ in GROUPS.values()]
    for line in found.splitlines():
        begun = [motto for motto in mottos if motto[:8] in line]
        assert all(motto in line for motto in begun), line


@pytest.mark.parametrize("width", [20, 34, 44, 80])
def test_what_watching_costs(width: int) -> None:
    """Tier by tier; a narrow terminal shows less of it, and never half a number."""
    found = shown(flight(metadata={"cost": COST}), width)
    lines = found[found.index("COST") :].splitlines()
    economy, full = (next(line.split() for line in lines if line.startswith(name)) for name in ("economy", "full"))
    assert "4.2" in economy
    assert "225" in full
    if width >= 44:
        assert economy == ["economy", "1,120", "40", "4.2", "33%"]
        assert full == ["full", "40", "1210", "225", "67%"]
        assert "tracking 4.5% of 5%" in " ".join(found.split())
    assert all(cell_len(line) <= width for line in found.splitlines())


def test_a_run_that_does_not_know_its_cost_has_no_table() -> None:
    assert "COST" not in shown(flight())


# ---- follow


def test_a_folder_that_is_deleted_ends_it(tmp_path: Path) -> None:
    writer = store.create(tmp_path / "a", METADATA)
    writer.append(frame(0))
    run, seen = StoredRun(tmp_path / "a"), 0

    def delete(seconds: float) -> None:
        nonlocal seen
        seen += 1
        assert seen < 3, "it never ends"
        shutil.rmtree(tmp_path / "a")

    with pytest.raises(CockpitError, match="a is gone"):
        for _ in show.looks(run, delete):
            pass
    writer.close()


def test_only_news_are_told() -> None:
    """The clock alone is no news; the end is."""
    told = [(facts["state"], facts["elapsed"]) for facts in show.changes(flight(left=4), pause=lambda seconds: None)]
    assert told == [("running", 51.0), ("finished", 54.0)]
    assert len(list(show.looks(flight(left=4), pause=lambda seconds: None))) == 4


def wait_for(run: StoredRun, step: int) -> None:
    for _ in range(500):
        run.refresh()
        if run.last_step == step:
            return
        time.sleep(0.01)


def test_a_line_for_each_change_where_nobody_looks(tmp_path: Path) -> None:
    writer = store.create(tmp_path / "a", METADATA)
    steps = iter(range(3))

    def train(seconds: float) -> None:
        """Another step is taken while the reader waits."""
        for step in steps:
            writer.append(frame(step))
            writer.step = step
            wait_for(run, step)
            return
        writer.close("crashed", "out of memory")

    run = StoredRun(tmp_path / "a")
    paper = StringIO()
    show.follow(run, Console(file=paper, width=200, color_system=None), train)
    lines = paper.getvalue().splitlines()
    assert lines[0].startswith("digits, running, no step yet")
    assert [line for line in lines if "loss 0.667" in line]
    assert lines[-1].startswith("digits, crashed, step 2 of 20, loss 0.667, Fuel 7.5")
    assert lines[-1].endswith("out of memory")


def test_a_live_screen_ends_with_the_run() -> None:
    paper = StringIO()
    console = Console(file=paper, width=80, height=24, force_terminal=True)
    show.follow(flight(left=3), console, pause=lambda seconds: None)
    assert "FINISHED" in paper.getvalue()
    assert paper.getvalue().count("RUNNING") >= 2


def test_a_run_that_broke() -> None:
    """It says so in its heading; what is no longer measured has no last value and no line to the end."""
    lost = [Record(step, "Loss", Kind.SCALAR, nan if step > 5 else 1.0) for step in range(10)]
    lost += [Record(step, "Alpha", Kind.SCALAR, None if step > 5 else 0.5, "not finite") for step in range(10)]
    found = shown(Recorded(lost, "a"), 100)
    assert found.startswith("a  IN MEMORY  NaN since step 6\n")
    alpha = next(line for line in found.splitlines() if line.strip().startswith("Alpha"))
    assert "undefined" in alpha
    facts = summary(Recorded(lost, "a"))
    assert show.told(facts)[1] == "loss not finite since step 6"
    since = {name: one["not_finite_since"] for name, one in facts["quantities"].items()}
    assert since == {"Loss": 6, "Alpha": 6}
