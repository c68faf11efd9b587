"""Commands that read results."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.results.samples import PUBLISHED, baselines, made, several
from tests.running import python

from cockpit.bench import reporting
from cockpit.cli import Commands
from cockpit.results import folder

main = Commands("bench", commands={command.name or "": command for command in reporting.COMMANDS})


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results, in the default place of an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COCKPIT_RUNS", raising=False)
    for place, run in enumerate(several(rates=(0.1, 1.0))):
        folder.write(run, tmp_path / "runs" / "bench" / str(place))
    return tmp_path / "runs" / "bench"


def call(*arguments: str | Path, code: int = 0) -> Result:
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_commands() -> None:
    assert [command.name for command in reporting.COMMANDS] == ["table", "plot", "import", "runtime"]
    assert all(isinstance(command, click.Command) and command.help for command in reporting.COMMANDS)


def test_table_of_the_default_folder(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = call("table").output
    assert "88.73 ± 0.08%" in shown
    monkeypatch.setenv("COCKPIT_RUNS", str(runs.parent))
    monkeypatch.chdir("/")
    assert call("table").output == shown == call("table", runs).output


@pytest.mark.parametrize("format", reporting.FORMATS)
def test_formats(runs: Path, tmp_path: Path, format: str) -> None:
    written = call("table", "--format", format, "--published").output
    said = call("table", "--format", format, "--published", "-o", "new/out").output
    assert said.startswith(f"{Path('new/out')}  ")
    assert (tmp_path / "new" / "out").read_text(encoding="utf-8") == written
    if format == "json":
        assert len(json.loads(written)["rows"]) == 2


def test_only_some_and_all(runs: Path) -> None:
    folder.write(made("Momentum", schedule="cosine"), runs / "more")
    rows = json.loads(call("table", "--format", "json", "--schedule", "cosine").output)["rows"]
    assert [row["optimizer"] for row in rows] == ["Momentum"]
    rows = json.loads(call("table", "--format", "json", "--optimizer", "SGD", "--all").output)["rows"]
    assert [(row["rank"], row["hyperparameters"]["lr"]) for row in rows] == [(1, 0.1), (2, 1.0)]
    call("plot", "--schedule", "cosine", "-o", "a.tex")
    assert "Adam" not in Path("a.tex").read_text()
    assert (
        "unknown schedule in these results 'linear'"
        in call("plot", "--schedule", "linear", "-o", "a.tex", code=2).output
    )


def test_an_empty_place_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COCKPIT_RUNS", raising=False)
    for command in (["table"], ["plot", "-o", "a.png"], ["table", str(tmp_path)]):
        done = call(*command, code=2)
        assert "no results in" in done.output
        assert "cockpit bench run" in done.output
    assert "does not exist" in call("table", tmp_path / "nowhere", code=2).output


def test_a_broken_file_is_named(runs: Path) -> None:
    (runs / "0" / "result.json").write_text("{")
    done = call("table")
    assert "left out" in done.stderr
    assert "not JSON" in done.stderr
    assert "Adam" in done.stdout


def test_plot(runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    said = call("plot", "--kind", "final", "--published", "-o", "a.svg").output
    assert said.startswith("a.svg  ")
    assert b"fmnist_2c2d" in (tmp_path / "a.svg").read_bytes()
    call("plot", runs, "--problem", "fmnist_2c2d", "--mode", "most", "--baselines", runs, "-o", "b.png")
    assert "unknown ending" in call("plot", "-o", "a.gif", code=2).output


def test_imported_results_in_the_same_folder_are_drawn_behind(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def figure(results: list[Any], kind: str, out: Path, baselines: list[Any], **options: Any) -> Path:
        seen.update(front=results, behind=baselines)
        out.touch()
        return out

    monkeypatch.setattr("cockpit.plots.bench.figure", figure)
    for problem in ("fmnist_2c2d", "mnist_vae"):
        folder.write(made("Adam", problem=problem, source="deepobs 1.1"), runs / "old" / problem)
    call("plot", "-o", "a.png")
    assert {(one.problem, one.source) for one in seen["front"]} == {
        ("fmnist_2c2d", "cockpit"),
        ("mnist_vae", "deepobs 1.1"),  # with no own run to stand behind
    }
    assert [(one.problem, one.source) for one in seen["behind"]] == [("fmnist_2c2d", "deepobs 1.1")]


def test_plot_as_tex(runs: Path, tmp_path: Path) -> None:
    call("plot", "-o", "a.tex")
    assert "groupplot" in (tmp_path / "a.tex").read_text()


def test_import_of_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "old" / "quadratic_deep" / "AdamOptimizer" / "num_epochs__2__batch_size__128"
    place.mkdir(parents=True)
    data = {
        "optimizer_name": "AdamOptimizer",
        "optimizer_hyperparams": {"learning_rate": 0.1},
        "test_losses": [3, 2, 1],
    }
    for seed in (42, 43):
        losses = {"minibatch_train_losses": [1.0, 1.0, 2.0, 2.0]}
        (place / f"random_seed__{seed}__2020-01-01-10-11-12.json").write_text(json.dumps(data | losses))
    assert call("import", tmp_path / "old", "-o", tmp_path / "new").output.startswith("2 results written")
    found = folder.find(tmp_path / "new", batch_losses=True)
    assert [(one.optimizer, one.seed, one.batch_losses) for one in found] == [
        ("Adam", seed, [1.0, 2.0]) for seed in (42, 43)
    ]
    call("import", tmp_path / "old", "-o", tmp_path / "new")
    assert len(folder.find(tmp_path / "new")) == 2
    folder.write(several()[0], tmp_path / "ours")
    assert "no results of DeepOBS" in call("import", tmp_path / "ours", "-o", tmp_path / "b", code=2).output


def test_import_of_the_authors_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [one for one in baselines() if one.problem == "quadratic_deep" and one.optimizer == "SGD"]
    monkeypatch.setattr("cockpit.results.deepobs.baseline_tables", lambda *files: some)
    call("import", PUBLISHED / "deepobs_baseline_runs.csv.gz", "-o", tmp_path)
    shown = call("table", tmp_path, "--published").output
    assert "87.40 ± 0.16  87.40 [5.2]   51.1" in shown


def test_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def estimate(optimizer: Any, **options: Any) -> SimpleNamespace:
        asked.update(options, name=optimizer.name, hyperparameters=optimizer.hyperparameters)
        return SimpleNamespace(ratio_mean=1.234, ratio_std=0.056)

    runtime = pytest.importorskip("cockpit.bench.runtime")
    monkeypatch.setattr(runtime, "estimate", estimate)
    said = call("runtime", "Adam", "--lr", "1e-5", "--set", "beta1=0.8", "--runs", "2").output
    assert said == "Adam trains mnist_mlp in 1.23 ± 0.06 times the time of SGD (2 runs each)\n"
    assert (asked["epochs"], asked["runs"], asked["problem"], asked["place"]) == (3, 2, "mnist_mlp", None)
    assert asked["hyperparameters"]["lr"] == 1e-5
    assert asked["hyperparameters"]["beta1"] == 0.8
    said = call("runtime", "Adam", "--runs", "1").output  # which has no deviation
    assert said == "Adam trains mnist_mlp in 1.23 times the time of SGD (a single run each)\n"
    told = json.loads(call("runtime", "Adam", "--json").output)
    assert told == {"optimizer": "Adam", "problem": "mnist_mlp", "runs": 5, "ratio": 1.234, "std": 0.056}
    assert "lr is given twice" in call("runtime", "Adam", "--lr", "1", "--set", "lr=2", code=2).output


def test_the_module_is_light(tmp_path: Path) -> None:
    heavy = "[name for name in ('torch', 'numpy', 'rich') if name in sys.modules]"
    done = python("-c", f"import sys, cockpit.bench.reporting; print({heavy})", cwd=tmp_path)
    assert done.stdout.strip() == "[]", done.stderr
