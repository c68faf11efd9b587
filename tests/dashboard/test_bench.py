"""Benchmark results on the page: own runs, imported ones behind them, published figures beside them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.browser import Tab, needs_chromium
from tests.dashboard.runs import write as write_run

from cockpit.dashboard.server import start
from cockpit.results.folder import write
from cockpit.results.result import Result


def result(optimizer: str, seed: int, end: float, source: str = "cockpit") -> Result:
    curves = {"train_loss": [9.0, end - 1, end - 2], "test_loss": [9.5, end + 1, end]}
    return Result("quadratic_deep", optimizer, {"lr": 0.1}, seed, 128, 2, curves, source=source)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bench")
    write_run(root / "first", name="first", steps=range(0, 20, 2))
    for seed, end in ((42, 4.0), (43, 5.0)):
        write(result("SGD", seed, end), root / "own" / f"seed_{seed}")
    write(result("Adam", 42, 3.0, "deepobs 1.1"), root / "old" / "seed_42")
    write(Result("digits", "SGD", {"lr": 0.1}, 42, 64, 1, {"test_accuracy": [0.1, 0.5]}), root / "digits")
    return root


def asked(folder: Path, **query: str) -> dict[str, Any]:
    from tests.dashboard.client import connect

    with connect(folder) as client:
        found: dict[str, Any] = client.get("/api/bench", params=query).json()
    return found


def test_a_problem_has_a_row_for_each_optimizer_and_own_runs_come_first(results: Path) -> None:
    found = asked(results, problem="quadratic_deep")
    assert (found["problems"], found["problem"]) == (["quadratic_deep", "digits"], "quadratic_deep")
    assert [row[:2] for row in found["rows"]] == [["SGD", "4.50"], ["Adam", "3.00"]]
    assert found["rows"][0][2] == "0.5"
    assert found["rows"][1][-1].endswith("(deepobs 1.1)")
    assert found["said"] == "2 runs, 1 imported"
    assert found["titles"][1] == "performance, test loss"
    assert {panel["title"] for panel in found["panels"]} >= {"quadratic_deep · test loss"}


def test_the_first_problem_is_shown_when_none_is_chosen(results: Path) -> None:
    assert asked(results)["problem"] == "quadratic_deep"
    assert asked(results, problem="digits")["rows"][0][1] == "50.00"
    assert asked(results, problem="digits")["said"] == "1 run"


def test_a_published_figure_of_another_length_says_so(results: Path) -> None:
    assert asked(results, problem="quadratic_deep")["rows"][0][5] == "86.29 (100 epochs)"


def test_a_folder_without_results_is_no_error(tmp_path: Path) -> None:
    found = asked(tmp_path)
    assert (found["problems"], found["rows"], found["panels"], found["problem"]) == ([], [], [], "")


@pytest.fixture
def tab(window: Any, results: Path) -> Iterator[Tab]:
    with start(results, 0) as running:
        found = Tab(window, running.url)
        yield found
        found.close()


@needs_chromium
@pytest.mark.slow
def test_the_page(tab: Tab) -> None:
    tab.open("tab=bench")
    tab.until("document.querySelectorAll('#bench canvas').length >= 3")
    assert tab.page.locator("#bench tbody tr").count() == 2
    tab.page.locator("#bench select").select_option("digits")
    tab.until("document.querySelector('#bench tbody').textContent.includes('50.00')")
    assert "problem=digits" in tab.page.evaluate("location.hash")


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    write(result("Adam", 42, 3.0, "deepobs 1.1"), tmp_path / "old" / "seed_42")
    return tmp_path


@pytest.mark.parametrize(("name", "alone"), [("imported", True), ("results", False), ("tmp_path", False)])
def test_results_without_runs_are_told_of(request: pytest.FixtureRequest, name: str, alone: bool) -> None:
    from tests.dashboard.client import connect

    with connect(request.getfixturevalue(name)) as client:
        assert client.get("/api/runs").json()["results_alone"] is alone


@needs_chromium
@pytest.mark.slow
def test_a_page_shows_what_is_imported_while_it_is_open(window: Any, results: Path, tmp_path: Path) -> None:
    for name in ("own", "first"):
        shutil.copytree(results / name, tmp_path / name)
    with start(tmp_path, 0) as running:
        tab = Tab(window, running.url)
        tab.open("tab=bench")
        tab.until("document.querySelectorAll('#bench tbody tr').length === 1")
        write(result("Adam", 42, 3.0, "deepobs 1.1"), tmp_path / "old" / "seed_42")
        tab.until("document.querySelectorAll('#bench tbody tr').length === 2")
        tab.close()


@needs_chromium
@pytest.mark.slow
def test_results_without_runs_are_shown(window: Any, imported: Path) -> None:
    with start(imported, 0) as running:
        tab = Tab(window, running.url).open()
        tab.until("document.querySelectorAll('#bench canvas').length >= 3")
        assert not tab.page.locator(".slate").first.is_visible()
        assert tab.page.locator("[role=tab]:visible").all_inner_texts() == ["Bench"]
        tab.close()


def test_a_sweep_is_shown_like_any_other_results(tmp_path: Path) -> None:
    from tests.results.sweeps.plans import entry, plan
    from tests.results.sweeps.test_cells import filled

    filled(tmp_path / "sweeps", plan(seeds=2), lambda spec: entry(spec, spec.hyperparameters["lr"], test=87.0))
    found = asked(tmp_path)
    assert found["problems"] == ["quadratic_deep"]
    assert found["said"] == "28 runs"
    assert found["rows"][0][:2] == ["SGD", "87.00"]
