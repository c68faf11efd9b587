"""The page while runs come, end, go and come back, in a real browser."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.browser import Tab, needs_chromium
from tests.plots.samples import COST

from cockpit import store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.dashboard.server import start

pytestmark = [needs_chromium, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
POINTS = "Number(document.querySelector('#deck [data-panel=loss] .plot')?.dataset.points)"
SAID = "!document.querySelector('#trouble').hidden && document.querySelector('#trouble').textContent"


@pytest.fixture
def tab(window: Any, tmp_path: Path) -> Iterator[Tab]:
    """A page over an empty folder."""
    with start(tmp_path, 0) as running:
        found = Tab(window, running.url)
        yield found
        found.errors = [error for error in found.errors if "404" not in error]  # a run was asked for that was just gone
        found.close()


@contextmanager
def training(folder: Path) -> Iterator[Any]:
    """A training that does a step, or crashes, when told so."""
    command = [sys.executable, "-m", "tests.dashboard.trainer", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer:

        def train(word: str = "step") -> None:
            assert trainer.stdin is not None
            trainer.stdin.write(word + "\n")
            trainer.stdin.flush()

        yield train


def losses(folder: Path, values: list[float], first: int = 0, reason: str | None = None) -> Path:
    """A run with nothing but a loss, which is quickly drawn."""
    writer = store.create(folder, {"name": folder.name})
    writer.append([Record(first + step, "Loss", Kind.SCALAR, value) for step, value in enumerate(values)])
    writer.close("crashed" if reason else "finished", reason)
    return writer.folder


def test_a_run_that_is_deleted_and_run_again_is_shown_again(tab: Tab, tmp_path: Path) -> None:
    there = losses(tmp_path / "again", [1.0] * 7)
    tab.open().until(f"{POINTS} === 7")
    shutil.rmtree(there)
    tab.until("document.body.classList.contains('blank-slate')")
    losses(tmp_path / "again", [1.0] * 9)
    tab.until(f"{POINTS} === 9")
    assert not tab.page.evaluate("document.body.classList.contains('blank-slate')")
    losses(tmp_path / "other", [1.0] * 3)
    tab.until("document.querySelectorAll('#run-list .run').length === 2")
    shutil.rmtree(there)
    tab.until("location.hash.includes('run=other')")
    tab.until(f"{POINTS} === 3")
    assert "again is no longer in this folder" in tab.until(SAID)
    losses(tmp_path / "again", [1.0] * 11)
    tab.until(f"{POINTS} === 11")


def test_the_others_go_on_when_an_overlaid_run_is_deleted(tab: Tab, tmp_path: Path) -> None:
    there = losses(tmp_path / "b", [1.0] * 4)
    with training(tmp_path / "a") as train:
        train()
        tab.open()
        tab.until("document.querySelectorAll('#run-list .run').length === 2")
        tab.open("run=a&run=b").until(f"{POINTS} === 5")
        shutil.rmtree(there)
        tab.until("!location.hash.includes('run=b')")
        assert "moved or deleted" in tab.until(SAID)
        train()
        tab.until(f"{POINTS} === 2")


def test_an_enlarged_panel_does_not_hold_up_the_rest(tab: Tab, tmp_path: Path) -> None:
    with training(tmp_path / "live") as train:
        train()
        train()
        tab.open("run=live").until(f"{POINTS} === 2")
        tab.page.locator("#deck [data-panel=loss] .stage").click()
        tab.until("document.querySelector('#focus canvas')")
        train()
        train("crash")
        tab.until("document.querySelector('#run-state').textContent === 'crashed'")
        tab.until("document.querySelector('#run-list .dot').dataset.state === 'crashed'")
        tab.page.keyboard.press("Escape")
        tab.until(f"{POINTS} === 3")


def test_a_tab_out_of_sight_gives_its_connection_back(tab: Tab, tmp_path: Path) -> None:
    losses(tmp_path / "run", [1.0] * 3)
    streams: list[str] = []
    for event in ("request", "requestfinished", "requestfailed"):
        tab.page.on(event, lambda asked, event=event: "/api/events" in asked.url and streams.append(event))
    tab.open().until(f"{POINTS} === 3")
    turn = "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true }); "
    turn += "document.dispatchEvent(new Event('visibilitychange')); }"
    tab.page.wait_for_timeout(600)  # the first readings are over
    tab.page.evaluate(turn, True)
    shutil.rmtree(tmp_path / "run")
    losses(tmp_path / "run", [1.0] * 5)
    tab.page.wait_for_timeout(800)
    assert len(streams) == 2
    assert tab.page.evaluate(POINTS) == 3, "nothing is read while nobody looks"
    tab.page.evaluate(turn, False)
    tab.until(f"{POINTS} === 5")
    assert streams.count("request") == 2


def test_back_leads_through_panels_tabs_and_runs(tab: Tab, tmp_path: Path) -> None:
    losses(tmp_path / "a", [1.0] * 6)
    losses(tmp_path / "b", [1.0] * 3)
    tab.open("run=a").until(f"{POINTS} === 6")
    tab.page.locator("#run-list [data-run=b] .pick").click()
    tab.until(f"{POINTS} === 3")
    tab.page.get_by_role("tab", name="Details").click()
    tab.page.get_by_role("tab", name="Deck").click()
    tab.page.locator("#deck [data-panel=loss] .title").click()
    tab.until("document.querySelector('#focus').open")
    tab.page.evaluate("history.back()")
    tab.until("!document.querySelector('#focus').open && !location.hash.includes('panel')")
    tab.page.evaluate("history.back()")
    tab.until("!document.querySelector('#details').hidden")
    tab.page.evaluate("history.go(-2)")
    tab.until(f"!document.querySelector('#deck').hidden && {POINTS} === 6")
    tab.page.evaluate("history.forward()")
    tab.until(f"{POINTS} === 3")


def hover(tab: Tab, share: float) -> list[str]:
    """What the loss panel says at this part of its width."""
    place = "const box = document.querySelector('#deck [data-panel=loss] canvas').getBoundingClientRect(); "
    box = tab.page.evaluate(f"() => {{ {place} return [box.x, box.y, box.width, box.height]; }}")
    tab.page.mouse.move(box[0] + 2, box[1] + box[3] / 2)
    tab.page.mouse.move(box[0] + 40 + (box[2] - 46) * share, box[1] + box[3] / 2)
    tab.until("document.querySelector('#cursor-step').textContent")
    found: list[str] = tab.page.locator("#deck [data-panel=loss] .reading span").all_inner_texts()
    return found


def test_a_loss_that_is_not_a_number_is_seen(tab: Tab, tmp_path: Path) -> None:
    losses(tmp_path / "bad", [1.0] * 30 + [math.nan] * 70)
    losses(tmp_path / "short", [2.0] * 50)
    tab.open("run=bad").until(f"{POINTS} === 30")
    tab.until("document.querySelector('[data-run=bad] .loss').textContent === 'NaN'")
    assert hover(tab, 0.15) == ["1"]
    assert hover(tab, 0.8) == ["NaN"]
    tab.open("run=bad&run=short").until(f"{POINTS} === 80")
    tab.until("document.querySelectorAll('#more-runs bdi').length === 1")
    assert hover(tab, 0.15) == ["1", "2"]
    assert hover(tab, 0.8) == ["NaN"], "the shorter run has no value there"


def test_runs_of_one_name_and_long_reasons_are_told_in_full(tab: Tab, tmp_path: Path) -> None:
    why = "RuntimeError: " + "the batch does not fit into memory " * 4 + "end"
    losses(tmp_path / "one" / "net", [1.0] * 3, reason=why)
    losses(tmp_path / "two" / "net", [2.0] * 3, first=1200)
    tab.open("run=one/net&run=two/net&tab=compare&mode=side")
    tab.until("document.querySelectorAll('#compare .side [data-panel=loss] canvas').length === 2")
    paths = "[...document.querySelectorAll('#run-list .where')].map((path) => path.textContent).sort().join()"
    tab.until(f"{paths} === 'one/net,two/net'")
    plots = "[...document.querySelectorAll('#compare .side [data-panel=loss] .plot')]"
    spans = tab.until(f"{plots}.every((plot) => plot.dataset.last) && {plots}.map(({{ dataset }}) => dataset.last)")
    assert spans == ["1202", "1202"]
    tab.page.get_by_role("tab", name="Details").click()
    tab.until("document.querySelector('#details').textContent.includes('into memory end')")
    assert tab.page.evaluate("document.querySelector('#run-reason').getBoundingClientRect().width") > 400


def test_what_watching_costs(tab: Tab, tmp_path: Path) -> None:
    writer = store.create(tmp_path / "a", {"name": "a", "cost": COST})
    writer.append([Record(0, "Loss", Kind.SCALAR, 1.0)])
    writer.close()
    losses(tmp_path / "b", [1.0])
    tab.open("run=a&tab=details").until("document.querySelector('#details .spent')")
    assert tab.page.locator("#details .spent strong").inner_text() == "4.5% of 5%"
    assert "a plain step takes 10 ms" in tab.page.locator("#details .spent").inner_text()
    rows = tab.page.locator("#details table").first.locator("tbody tr").all_inner_texts()
    assert [row.split() for row in rows] == [
        ["economy", "1,120", "40", "steps", "4.2", "–", "33%"],
        ["full", "40", "1,210", "steps", "225", "–", "67%"],
    ]
    assert tab.page.locator("#fact-cost").inner_text() == "4.5% of 5%"
    tab.page.locator("#run-list [data-run=b] .pick").click()
    tab.until("document.querySelector('#details').textContent.includes('does not say what its tracked steps cost')")


def test_runs_are_renamed_hidden_and_deleted_from_the_list(tab: Tab, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        losses(tmp_path / name, [1.0] * 3)
    rows = "[...document.querySelectorAll('#run-list .run:not([hidden]) .run-name')]"
    shown = f"{rows}.map((name) => name.textContent).sort().join()"

    def choose(run: str, item: str) -> None:
        tab.page.locator(f"#run-list [data-run={run}]").hover()
        tab.page.locator(f"#run-list [data-run={run}] .more-run").click()
        tab.page.locator(".run-menu button", has_text=item).click()

    tab.open("run=a").until(f"{shown} === 'a,b,c'")
    choose("b", "Rename")
    tab.page.locator("#sure input").fill("warm-up")
    tab.page.locator("#sure input").press("Enter")
    tab.until(f"{shown} === 'a,c,warm-up'")
    choose("b", "Hide")
    tab.until(f"{shown} === 'a,c'")
    tab.page.locator("#hidden-runs").click()
    tab.until(f"{shown} === 'a,c,warm-up'")
    choose("c", "Delete")
    assert "cannot be undone" in tab.page.locator("#sure").inner_text()
    tab.page.locator("#sure button", has_text="Cancel").click()
    assert (tmp_path / "c").exists()
    choose("c", "Delete")
    tab.page.locator("#sure button", has_text="Delete").click()
    tab.until(f"{shown} === 'a,warm-up'")
    assert not (tmp_path / "c").exists()
