"""Which run is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.plots.samples import METADATA, output, stored

from cockpit.core.errors import CockpitError
from cockpit.paper_log import write_json
from cockpit.plots.reading import Log, chosen, file_name, from_path, runs_folder, single
from cockpit.store.run import StoredRun


def test_a_folder_a_database_and_a_log(tmp_path: Path) -> None:
    folder = stored(tmp_path / "a")
    write_json(output(), tmp_path / "log.json")
    (database,) = folder.glob("run.db")
    for path in (folder, database):
        run = from_path(path)
        assert isinstance(run, StoredRun)
        assert run.path == folder
    log = from_path(tmp_path / "log")
    assert isinstance(log, Log)
    assert (log.name, log.path, log.state) == ("log", tmp_path / "log.json", "log")


def test_a_database_goes_before_a_log_in_the_same_folder(tmp_path: Path) -> None:
    write_json(output(), stored(tmp_path / "a") / "output.json")
    assert isinstance(from_path(tmp_path / "a"), StoredRun)


def test_the_log_in_a_folder_is_named_after_it(tmp_path: Path) -> None:
    write_json(output(), tmp_path / "first" / "output.json")
    assert from_path(tmp_path / "first").name == "first"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", "did you mean '.*digits'"),
        ("else", r"else does not exist, nor .*else\.json; give the folder of a run"),
        ("empty", "empty is not a run.*give a folder made by cockpit.watch"),
        ("notes.txt", "not JSON"),
        (".", "it contains runs: .*digits"),
    ],
)
def test_what_is_no_run(tmp_path: Path, name: str, message: str) -> None:
    stored(tmp_path / "digits")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CockpitError, match=message):
        from_path(tmp_path / name)


def test_a_damaged_run_says_so(tmp_path: Path) -> None:
    database = stored(tmp_path / "a") / "run.db"
    StoredRun(tmp_path / "a")
    for rest in (tmp_path / "a").glob("run.db-*"):
        rest.unlink()
    database.write_bytes(b"not a database at all" * 100)
    with pytest.raises(CockpitError, match=r"nothing of .*a can be read: .*not a cockpit run, or its beginning is d"):
        from_path(tmp_path / "a")


def test_without_a_name_the_newest_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path))
    with pytest.raises(CockpitError, match=r"no run below .*start one"):
        chosen(None)
    for number, name in enumerate(("old", "new", "older")):
        started = METADATA["started"] + (100 if name == "new" else -number)
        stored(tmp_path / "deep" / name, name=name, started=started)
    assert single(None).name == "new"


def test_a_folder_with_runs(tmp_path: Path) -> None:
    stored(tmp_path / "deep" / "only")
    assert single(tmp_path).name == "digits", "one run needs no name"
    stored(tmp_path / "other")
    found = chosen(tmp_path)
    assert isinstance(found, list)
    assert len(found) == 2
    with pytest.raises(CockpitError, match=r"holds 2 runs; name one of them: .*only"):
        single(tmp_path)


def test_the_folder_of_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COCKPIT_RUNS", raising=False)
    assert runs_folder() == Path("runs")
    monkeypatch.setenv("COCKPIT_RUNS", "/data/runs")
    assert runs_folder() == Path("/data/runs")
    assert runs_folder("here") == Path("here")


@pytest.mark.parametrize(("name", "file"), [("a b/c", "a_b_c"), ("..", "run"), (".hidden", "hidden"), ("v1.2", "v1.2")])
def test_names_of_files(name: str, file: str) -> None:
    assert file_name(Log({}, name)) == file
