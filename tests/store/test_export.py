"""Runs in the formats of other tools, read back with these tools."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.plots.samples import LATER, METADATA, records, stored
from tests.running import python

from cockpit import store
from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.plots.reading import Log
from cockpit.store.export import export
from cockpit.store.run import StoredRun

STEPS = 10
EXTRA = [
    Record(0, "Losses", Kind.PER_SAMPLE, np.array([1.0, 2.0, 3.0])),
    Record(1, "HessTrace", Kind.PER_PARAMETER, {"0.weight": 3.0, "0.bias": -1.0}, None, {"error": {"0.weight": 0.5}}),
]


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    writer = store.create(tmp_path / "run", METADATA)
    writer.append([*records(STEPS), *EXTRA])
    writer.close()
    return StoredRun(tmp_path / "run")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_csv(run: StoredRun, tmp_path: Path) -> None:
    made = export(run, "csv", tmp_path / "out")
    names = ["scalars", "parameters", "histograms", "samples", "details", "undefined"]
    assert made == [*(tmp_path / "out" / f"{name}.csv" for name in names), tmp_path / "out" / "metadata.json"]
    scalars, parameters, histograms, samples, details, undefined = (read(path) for path in made[:-1])
    assert [row["step"] for row in scalars] == [str(step) for step in range(STEPS)]
    assert float(scalars[4]["Loss"]) == 2.0 / 5
    assert float(scalars[0]["GradNorm"]) == 5.0
    assert float(scalars[0]["HessTrace"]) == 2.0
    assert scalars[3]["Fuel"] == "NaN", "a number that is not finite stays one"
    assert scalars[STEPS - 1]["Alpha"] == "", "what is undefined is empty"
    assert {"step": "2", "quantity": "GradNorm", "parameter": "0.bias", "value": "4.0"} in parameters
    assert {"step": "2", "quantity": "Parameters.norm", "parameter": "0.bias", "value": "4.0"} in parameters
    assert [row["value"] for row in samples] == ["1.0", "2.0", "3.0"]
    assert {
        "step": "0",
        "quantity": "HessTrace",
        "detail": "curvature",
        "parameter": "",
        "value": "",
        "word": "ggn",
    } in (details)
    assert [row["value"] for row in details if row["detail"] == "error"] == ["0.5"]
    assert undefined == [{"step": str(STEPS - 1), "quantity": "Alpha", "reason": LATER}]
    flat = [row for row in histograms if row["step"] == "0" and row["quantity"] == "GradHist1d"]
    assert [(row["parameter"], row["low"], row["high"], row["count"]) for row in flat] == [
        ("0.weight", "-1.0", "0.0", "3"),
        ("0.weight", "0.0", "1.0", "5"),
        ("0.weight", "1.0", "2.0", "1"),
        ("0.bias", "-1.0", "0.0", "1"),
    ]
    square = [row for row in histograms if row["step"] == "0" and row["quantity"] == "GradHist2d"]
    assert [(row["low"], row["low_2"]) for row in square] == [(str(low), str(low)) for low in (-2.0, -1.0, 0.0, 1.0)]
    assert json.loads(made[-1].read_text())["model"] == METADATA["model"]


def test_parquet(run: StoredRun, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    made = export(run, "parquet", tmp_path / "out")
    assert [path.name for path in made][:2] == ["scalars.parquet", "parameters.parquet"]
    scalars = parquet.read_table(made[0]).to_pydict()
    assert scalars["step"] == list(range(STEPS))
    assert scalars["Alpha"][-1] is None, "undefined is null"
    assert isnan(scalars["Fuel"][3]), "and not finite is not"
    assert len(parquet.read_table(made[1])) == len(read(export(run, "csv", tmp_path / "csv")[1]))


def test_json_in_the_paper_s_form(run: StoredRun, tmp_path: Path) -> None:
    log, lines, _ = export(run, "json", tmp_path / "out")
    output = json.loads(log.read_text())
    assert list(output) == [str(step) for step in range(STEPS)]
    assert output["0"]["GradNorm"] == [3.0, 4.0]
    assert output["0"]["GradHist1d"] == {"hist": [0, 4, 5, 1], "edges": [-2, -1, 0, 1, 2]}
    assert output["3"]["Fuel"] == "nan"
    assert output["9"]["Alpha"] is None
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(found) == len(list(run.records()))
    alpha = next(entry for entry in found if entry["name"] == "Alpha" and entry["step"] == 9)
    assert alpha == {"step": 9, "name": "Alpha", "kind": "scalar", "value": None, "reason": LATER}
    counted = next(entry for entry in found if entry["name"] == "GradHist1d")
    assert counted["value"]["parts"] == {"0.weight": [0, 3, 5, 1], "0.bias": [0, 1, 0, 0]}


def test_tensorboard(run: StoredRun, tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (made,) = export(run, "tensorboard", tmp_path / "out")
    assert made.name.startswith("events.out.tfevents.")
    events = reader.EventAccumulator(str(tmp_path / "out"), size_guidance={"tensors": 0, "scalars": 0})
    events.Reload()
    tags = events.Tags()
    assert {"Loss", "GradNorm", "GradNorm/0.weight", "GradNorm/0.bias", "Parameters/0.bias"} <= set(tags["scalars"])
    assert {"GradHist1d", "GradHist2d", "GradHist2d/axis 1"} <= set(tags["tensors"])
    assert [(event.step, event.value) for event in events.Scalars("Loss")] == [
        (step, pytest.approx(2.0 / (step + 1))) for step in range(STEPS)
    ]
    assert len(events.Scalars("Alpha")) == STEPS - 1, "what is undefined is left out"
    buckets = np.frombuffer(events.Tensors("GradHist1d")[0].tensor_proto.tensor_content).reshape(-1, 3)
    assert buckets.tolist() == [[-2, -1, 0], [-1, 0, 4], [0, 1, 5], [1, 2, 1]]
    assert events.Scalars("Loss")[0].wall_time == METADATA["started"]


@pytest.mark.parametrize("target", ["csv", "parquet", "json"])
def test_one_file_for_the_main_table(run: StoredRun, tmp_path: Path, target: str) -> None:
    out = tmp_path / "new" / f"run.{target}"
    assert export(run, target, out) == [out]
    assert out.is_file()
    assert list(out.parent.iterdir()) == [out], "nothing half written is left behind"


@pytest.mark.parametrize("target", ["csv", "parquet", "json", "tensorboard"])
def test_nothing_is_overwritten_without_force(run: StoredRun, tmp_path: Path, target: str) -> None:
    (tmp_path / "out").mkdir()
    first = export(run, target, tmp_path / "out")
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    before = first[0].read_bytes()
    with pytest.raises(CockpitError, match=r"out exists already.*--force"):
        export(StoredRun(stored(tmp_path / "short", 2)), target, tmp_path / "out")
    assert first[0].read_bytes() == before
    again = export(StoredRun(tmp_path / "short"), target, tmp_path / "out", force=True)
    assert again[0].read_bytes() != before
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep me"
    if target == "tensorboard":
        assert len(list((tmp_path / "out").glob("events*"))) == 1, "two would be drawn on top of each other"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("before", ["csv", "parquet", "json", "tensorboard"])
@pytest.mark.parametrize("target", ["csv", "parquet", "json", "tensorboard"])
def test_force_leaves_nothing_of_another_run(run: StoredRun, tmp_path: Path, before: str, target: str) -> None:
    for library in {"parquet": ["pyarrow"], "tensorboard": ["tensorboard"]}.get(before, []):
        pytest.importorskip(library)
    out, log = tmp_path / "out", Log({0: {"Loss": 1.0}}, "log")
    export(run, before, out)
    mine = {"mine.csv", "events.out.tfevents.1.mine", "details.csv.bak", "samples.txt"}
    for name in mine:
        (out / name).write_text("keep me")
    made = export(log, target, out, force=True)
    assert names(out) == mine | {path.name for path in made}


@pytest.mark.parametrize("target", ["csv", "json", "tensorboard"])
def test_force_keeps_files_that_only_look_like_ours(run: StoredRun, tmp_path: Path, target: str) -> None:
    """No export has been here: what has the name of an exported file is replaced at most, never deleted."""
    out = tmp_path / "out"
    out.mkdir()
    mine = {"parameters.csv", "samples.parquet", "output.json", "metadata.json", "records.jsonl"}
    for name in mine:
        (out / name).write_text('{"mine": 1}')
    made = export(Log({0: {"Loss": 1.0}}, "log"), target, out, force=True)
    assert mine <= names(out)
    for name in mine - {path.name for path in made}:
        assert (out / name).read_text() == '{"mine": 1}'


def test_what_exports_left_is_not_believed_blindly(run: StoredRun, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("keep me")
    export(run, "csv", tmp_path / "out")
    (tmp_path / "out" / "metadata.json").write_text(json.dumps({"exported": ["../secret", "notes", 3]}))
    (tmp_path / "out" / "notes").write_text("keep me")
    export(run, "tensorboard", tmp_path / "out", force=True)
    assert (tmp_path / "secret").exists()
    assert (tmp_path / "out" / "notes").exists()


FULL = """
import resource, sys
from pathlib import Path
from cockpit.store.export import export
from cockpit.store.run import StoredRun

resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
try:
    export(StoredRun("run"), sys.argv[1], "out", force=True)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
@pytest.mark.parametrize("target", ["csv", "parquet", "json", "tensorboard"])
def test_a_full_disk_changes_nothing(run: StoredRun, tmp_path: Path, target: str) -> None:
    before = {path: path.read_bytes() for path in export(run, target, tmp_path / "out")}
    done = python("-c", FULL, target, cwd=tmp_path)
    assert done.stdout.startswith("CockpitError out cannot be written: ")
    assert done.stdout.endswith("File too large; choose another place\n")
    assert not done.stderr, "nothing but the error is said"
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.skipif(sys.platform == "win32", reason="devices of Unix")
@pytest.mark.parametrize("target", ["csv", "tensorboard"])
def test_a_device_is_no_folder(run: StoredRun, target: str) -> None:
    for force in (False, True):
        with pytest.raises(CockpitError, match="/dev/full is a file; give a folder"):
            export(run, target, "/dev/full", force)


def test_a_folder_is_no_file(run: StoredRun, tmp_path: Path) -> None:
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(CockpitError, match="is a folder; give a file"):
        export(run, "csv", tmp_path / "out.csv", force=True)


@pytest.mark.parametrize("target", ["csv", "parquet", "json"])
def test_damage_is_told(run: StoredRun, tmp_path: Path, target: str) -> None:
    sound = export(run, target, tmp_path / "sound")[-1]
    assert "damaged" not in json.loads(sound.read_text())

    class Damaged(Log):
        damaged = "3 records are damaged and left out"

    made = export(Damaged({0: {"Loss": 1.0}}, "log"), target, tmp_path / "out")[-1]
    assert json.loads(made.read_text())["damaged"] == Damaged.damaged


NAMED = [
    Record(3, "step", Kind.SCALAR, 0.5),
    Record(3, "step (metric)", Kind.SCALAR, 0.25),
    Record(3, "GradNorm", Kind.PER_PARAMETER, {"step": 4.0, "w": 3.0}),
    Record(3, "sample", Kind.PER_SAMPLE, np.array([7.0])),
]


@pytest.fixture
def named(tmp_path: Path) -> StoredRun:
    """A run with a metric and a parameter that are called like a column."""
    writer = store.create(tmp_path / "named", METADATA)
    writer.append(NAMED)
    writer.close()
    return StoredRun(tmp_path / "named")


def test_the_step_is_never_lost(named: StoredRun, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    expected = {"step": 3.0, "step (metric) (metric)": 0.5, "step (metric)": 0.25, "GradNorm": 5.0}
    (row,) = read(export(named, "csv", tmp_path / "a.csv")[0])
    assert {name: float(cell) for name, cell in row.items()} == expected
    (row,) = parquet.read_table(export(named, "parquet", tmp_path / "a.parquet")[0]).to_pylist()
    assert row == expected
    assert {name: column.tolist() for name, column in named.table().items()} == {n: [v] for n, v in expected.items()}
    assert named.table("GradNorm") == {"step": [3], "step (parameter)": [4.0], "w": [3.0]}
    assert named.table("step") == {"step": [3], "step (metric)": [0.5]}
    assert named.table("sample") == {"step": [3], "sample": [0], "sample (metric)": [7.0]}


def test_half_a_character_in_a_name(tmp_path: Path) -> None:
    """As in file names that are no text: no file takes it, so it is spelled out."""
    metrics = {f"a{half}": float(place) for place, half in enumerate(["\ud800", "\ud801"], 1)}
    log = Log({0: {**metrics, "N": {"w\ud800": 3.0}}}, "log")
    wide, long = (read(path) for path in export(log, "csv", tmp_path / "csv")[:2])
    assert wide == [{"step": "0", "a\\ud800": "1.0", "a\\ud801": "2.0", "N": "3.0"}]
    assert long[0]["parameter"] == "w\\ud800"
    assert json.loads(export(log, "json", tmp_path / "log.json")[0].read_text())["0"]["a\\ud801"] == 2.0
    if pytest.importorskip("pyarrow"):
        export(log, "parquet", tmp_path / "parquet")
    if pytest.importorskip("tensorboard"):
        export(log, "tensorboard", tmp_path / "tensorboard")


def test_data_frames_read_numbers_that_are_not_finite(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    values = ["nan", "inf", "-inf", 1.5]
    (made,) = export(
        Log({step: {"Loss": value} for step, value in enumerate(values)}, "log"), "csv", tmp_path / "a.csv"
    )
    for column in (pandas.read_csv(made)["Loss"].to_list(), polars.read_csv(made)["Loss"].to_list()):
        assert isnan(column[0])
        assert column[1:] == [float("inf"), float("-inf"), 1.5]


def test_what_is_refused(run: StoredRun, tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="unknown format 'xls'"):
        export(run, "xls", tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(CockpitError, match="is a file"):
        export(run, "csv", tmp_path / "file", force=True)
    with pytest.raises(CockpitError, match="cannot be written"):
        export(run, "csv", tmp_path / "file" / "below")


def test_a_log_of_the_paper_s_tool(tmp_path: Path) -> None:
    log = Log({0: {"Loss": 1.0, "GradNorm": [3.0, 4.0], "Alpha": None}}, "log")
    made = export(log, "csv", tmp_path / "out")
    assert read(made[0]) == [{"step": "0", "Loss": "1.0", "GradNorm": "5.0", "Alpha": ""}]
    assert json.loads(export(log, "json", tmp_path / "log.json")[0].read_text())["0"]["GradNorm"] == [3.0, 4.0]


def test_an_empty_run(tmp_path: Path) -> None:
    made = export(Log({}, "log"), "csv", tmp_path / "out")
    assert made[0].read_text() == "step\n"
    assert [path.name for path in made] == ["scalars.csv", "metadata.json"]


@pytest.mark.parametrize(("target", "library"), [("parquet", "pyarrow"), ("tensorboard", "tensorboard")])
def test_a_missing_library_is_named(tmp_path: Path, target: str, library: str) -> None:
    code: Any = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from cockpit.store.export import export\nfrom cockpit.plots.reading import Log\n"
        f"export(Log({{}}, 'log'), {target!r}, 'out')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert f"CockpitError: {library} is not installed; run: pip install 'cockpit-deck[export]'" in done.stderr
