"""``open_run``: what was recorded, as tables and series."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.plots.samples import LATER, METADATA, frame, output, records, stored

from cockpit import open_run, store
from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.paper_log import write_json
from cockpit.plots.deck import deck
from cockpit.run import Run

STEPS = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("runs") / "a", STEPS)


@pytest.fixture(params=["stored", "log"])
def run(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Run:
    """The same run, from our store and from the paper's log."""
    if request.param == "stored":
        return open_run(folder)
    write_json(output(STEPS), tmp_path / "log.json")
    return open_run(tmp_path / "log")


def test_what_it_holds(run: Run) -> None:
    assert run.steps == list(range(STEPS))
    assert run.names == list(run) == list(run.kinds)
    assert run.kinds["GradHist1d"] is Kind.HISTOGRAM
    assert "Loss" in run
    assert "Elsewhere" not in run
    assert run["Loss"].values.tolist() == [2.0 / (step + 1) for step in range(STEPS)]
    assert run["GradNorm"].values.tolist() == [5.0] * STEPS
    assert np.isnan(run["Alpha"].values[-1])
    assert run["Alpha"].defined().steps.tolist() == list(range(STEPS - 1))
    assert len(list(run.records())) == len(records(STEPS))
    assert run.output()[4]["Loss"] == 2.0 / 5
    assert not run.refresh()


def test_names_that_are_not_there(run: Run) -> None:
    with pytest.raises(CockpitError, match=r"unknown quantity 'Los'; did you mean 'Loss'"):
        run["Los"]
    with pytest.raises(CockpitError, match="unknown quantity 'los'"):
        run.table("los")
    with pytest.raises(CockpitError, match=r"GradHist1d is a histogram.*table\('GradHist1d'\)"):
        run["GradHist1d"]


def test_tables(run: Run) -> None:
    wide = run.table()
    assert list(wide)[:2] == ["step", "Loss"]
    assert {len(column) for column in wide.values()} == {STEPS}
    assert set(run.table("Loss")) == {"step", "Loss"}
    first, second = list(run.table("GradNorm"))[1:]
    assert (first, second) in (("0.weight", "0.bias"), ("0", "1"))
    assert run.table("GradNorm")[second].tolist() == [4.0] * STEPS
    bins = run.table("GradHist1d")
    assert sum(bins["count"][bins["step"] == 0]) == 10
    assert {"step", "parameter", "low", "high", "low_2", "high_2", "count"} == set(run.table("GradHist2d"))


@pytest.mark.parametrize("name", [None, "GradNorm", "GradHist1d", "GradHist2d"])
def test_data_frames(run: Run, name: str | None) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = run.table(name)
    for frame_ in (run.to_pandas(name), pandas.DataFrame(run.table(name))):
        assert list(frame_.columns) == list(columns)
        assert len(frame_) == len(columns["step"])
    for frame_ in (run.to_polars(name), polars.DataFrame(run.table(name))):
        assert frame_.columns == list(columns)
        assert frame_["step"].to_list() == columns["step"].tolist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(CockpitError, match=f"{library} is not installed"):
        getattr(run, f"to_{library}")()


def test_what_is_known_about_it(folder: Path) -> None:
    run = open_run(folder)
    assert (run.name, run.path, run.state, run.reason) == ("digits", folder, "finished", None)
    assert run.metadata["model"] == METADATA["model"]
    assert (run.reached, run.damaged) == (STEPS, None)
    assert run.updated is not None
    assert run.explain() == "All parameters are covered."
    assert run.reasons("Alpha") == {LATER: [9]}
    assert repr(run) == "<cockpit run 'digits', finished, 10 steps recorded, 0 to 9, 9 quantities>"


def test_what_is_known_about_a_log(tmp_path: Path) -> None:
    write_json({}, tmp_path / "log.json")
    run = open_run(tmp_path / "log.json")
    assert (run.name, run.state, run.metadata, run.reached, run.updated) == ("log", "log", {}, None, None)
    assert "does not say what was covered" in run.explain()
    assert repr(run) == "<cockpit run 'log', log, no step recorded, 0 quantities>"


def test_it_is_a_source(run: Run) -> None:
    assert [group.title for group in deck(run)] == ["step size", "gradients", "curvature", "performance"]
    assert run.parts("GradNorm").values.shape == (STEPS, 2)
    assert run.histogram("GradHist1d", 0).counts.tolist() == [0, 4, 5, 1]
    assert len(run.detail("HessTrace", "curvature")) == 0


def test_a_run_that_grows(tmp_path: Path) -> None:
    writer = store.create(tmp_path / "a", METADATA)
    writer.append(frame(0))
    run = open_run(tmp_path / "a")
    assert run.state == "running"
    version = run.version
    writer.append(frame(1))
    writer.close("crashed", "out of memory")
    assert run.refresh()
    assert run.version != version
    assert (run.steps, run.state, run.reason) == ([0, 1], "crashed", "out of memory")


def test_it_shows_itself_in_a_terminal(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.show()
    once = capsys.readouterr().out
    assert "Loss" in once
    run.show(follow=True)  # it has ended: told once
    assert "step 9" in capsys.readouterr().out or run.state == "log"


def test_it_shows_itself_in_a_notebook(run: Run) -> None:
    shown = run._repr_html_()
    assert run.name in shown
    assert "data:image/png;base64," in shown or "No picture" in shown


def test_it_cannot_be_pickled_by_accident(folder: Path) -> None:
    """A run holds open files; what can be sent elsewhere is its path."""
    with pytest.raises(TypeError):
        pickle.dumps(open_run(folder))
