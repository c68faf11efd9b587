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
    assert isnan(float(scalars[3]["Fuel"])), "a number that is not finite stays one"
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
