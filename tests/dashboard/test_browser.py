"""The page as people use it, in a real browser, with the server in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.browser import Tab, needs_chromium
from tests.dashboard.runs import EVIL

from cockpit.dashboard.server import start

pytestmark = [needs_chromium, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
BOTH = "run=first&run=sweep/second"


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with start(folder, 0) as running:
        yield running.url


@pytest.fixture
def tab(window: Any, url: str) -> Iterator[Tab]:
    found = Tab(window, url)
    yield found
    found.close()


def span(tab: Tab, panel: str) -> list[float]:
    """The steps that a chart shows, by its own axis."""
    script = "(id) => { const found = document.querySelector(`#deck [data-panel=${id}] .plot`); return found.dataset; }"
    data = tab.page.evaluate(script, panel)
    return [float(data["first"]), float(data["last"])]


def test_the_deck_opens_whole_and_fits_the_screen(tab: Tab) -> None:
    tab.open("run=first").drawn(count=15)
    bottom = tab.page.evaluate("document.querySelector('.performance').getBoundingClientRect().bottom")
    assert bottom <= 900
    heads = tab.page.locator("#deck .group h2 span").all_inner_texts()
    assert [head.lower() for head in heads] == ["step size", "gradients", "curvature"]
    assert tab.page.locator("#deck .deck canvas").count() >= 15
    assert tab.page.locator("#run-name").inner_text() == "first"
    assert tab.page.locator("#run-state").inner_text() == "finished"


def test_the_newest_run_is_shown_when_none_is_chosen(tab: Tab) -> None:
    tab.open()
    tab.until("document.querySelectorAll('#run-list .run.main').length === 1")
    assert "run=" in tab.page.evaluate("location.hash")


def test_a_drag_zooms_all_panels_and_a_double_click_resets(tab: Tab) -> None:
    tab.open("run=first").drawn(count=15)
    assert span(tab, "loss") == [0, 78]
    box = tab.page.locator("#deck [data-panel=loss] .stage").bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=4)
    tab.page.mouse.up()
    tab.until("location.hash.includes('lo=')")
    tab.until("Number(document.querySelector('#deck [data-panel=grad-norm] .plot').dataset.first) > 10")
    assert span(tab, "loss") == span(tab, "eigenvalue") == span(tab, "grad-norm")
    assert 10 < span(tab, "loss")[0] < span(tab, "loss")[1] < 78
    tab.page.mouse.dblclick(box["x"] + box["width"] / 2, middle)
    tab.until("!location.hash.includes('lo=')")
    tab.until("document.querySelector('#deck [data-panel=trace] .plot').dataset.last === '78'")


def test_the_same_step_is_marked_everywhere(tab: Tab) -> None:
    tab.open("run=first").drawn(count=15)
    box = tab.page.locator("#deck [data-panel=loss] .stage").bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    tab.until("document.querySelectorAll('#deck .cursor:not([hidden])').length >= 8")
    step = int(tab.page.locator("#cursor-step").inner_text().removeprefix("step "))
    assert 25 < step < 55
    read = float(tab.page.locator("#deck [data-panel=loss] .reading").inner_text())
    assert 0.6 < read < 1.4


def test_a_link_reopens_the_same_view(tab: Tab) -> None:
    tab.open(f"{BOTH}&lo=10&hi=30&axis=linear&smooth=0.5&tab=compare").drawn("compare", 5)
    assert tab.page.locator("#zoom-text").inner_text() == "steps 10 to 30"
    assert tab.page.locator("#axis button[aria-pressed=true]").inner_text() == "linear"
    assert tab.page.locator("#smooth-value").inner_text() == "0.50"
    assert tab.page.locator(".run.chosen").count() == 2


def test_runs_are_overlaid_and_put_side_by_side(tab: Tab) -> None:
    tab.open("run=first").drawn(count=15)
    alone = tab.page.locator("#deck [data-panel=loss] .plot").get_attribute("data-points")
    tab.page.get_by_label("Show second").check()
    tab.until(f"document.querySelector('#deck [data-panel=loss] .plot').dataset.points > {alone}")
    tab.page.get_by_role("tab", name="Compare").click()
    tab.drawn("compare", 5)
    assert "20" in tab.page.locator("#compare table").inner_text()
    tab.page.get_by_role("button", name="side by side").click()
    tab.until("document.querySelectorAll('#compare .side').length === 2")
    tab.until("document.querySelectorAll('#compare .side [data-panel=loss] canvas').length === 2")


def test_layer_by_layer(tab: Tab) -> None:
    tab.open("run=first&tab=layers").drawn("layers", 2)
    tab.page.get_by_label("Quantity").select_option("HessTrace")
    tab.until("document.querySelector('#layers .title').textContent.includes('HessTrace')")
    tab.drawn("layers", 2)
    assert "name=HessTrace" in tab.page.evaluate("location.hash")


def test_a_click_enlarges_with_reading_aid_and_layers(tab: Tab) -> None:
    tab.open("run=first").drawn(count=15)
    tab.page.locator("#deck [data-panel=grad-norm] .stage").click()
    tab.until("document.querySelectorAll('#focus canvas').length === 2")
    assert "clip" in tab.page.locator("#focus .aid").inner_text()
    tab.page.keyboard.press("Escape")
    tab.until("!document.querySelector('#focus').open && !location.hash.includes('panel=')")


def test_the_keyboard(tab: Tab) -> None:
    tab.open("run=first").drawn(count=15)
    before = tab.page.evaluate("document.documentElement.dataset.theme")
    for key in ("t", "l", "s", "5"):
        tab.page.keyboard.press(key)
    tab.until("location.hash.includes('axis=log') && location.hash.includes('smooth=0.1')")
    tab.until("document.querySelector('#details').textContent.includes('covers everything')")
    assert tab.page.evaluate("document.documentElement.dataset.theme") != before
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("second")
    tab.until("document.querySelectorAll('#run-list .run:not([hidden])').length === 1")
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("?")
    assert "smoothing" in tab.page.locator("#help").inner_text()
    tab.page.reload()
    tab.until("document.documentElement.dataset.theme")
    assert tab.page.evaluate("document.documentElement.dataset.theme") != before


def test_keys_do_not_act_out_of_sight(tab: Tab) -> None:
    tab.open("run=first&panel=nonsense").drawn(count=15)
    tab.until("!document.querySelector('#focus').open && !location.hash.includes('panel')")
    tab.errors = [error for error in tab.errors if "400" not in error]  # the browser's own note of that answer
    tab.page.keyboard.press("?")
    tab.page.keyboard.press("5")
    tab.page.keyboard.press("?")
    tab.page.locator("#deck [data-panel=loss] .stage").hover()
    tab.until("document.querySelector('#cursor-step').textContent")
    tab.page.keyboard.press("p")
    tab.until("location.hash.includes('step=')")
    tab.page.keyboard.press("p")
    tab.until("!location.hash.includes('step=')")
    tab.page.keyboard.press("f")
    tab.until("document.querySelector('#focus canvas')")
    tab.page.keyboard.press("]")
    tab.page.locator("#focus .large summary").click()
    tab.until("document.querySelectorAll('#focus .sheet a').length === 5")
    tab.page.keyboard.press("Escape")
    tab.until("!document.querySelector('#focus .menu').open")
    assert tab.page.evaluate("document.querySelector('#focus').open")
    assert tab.page.evaluate("location.hash").startswith("#run=first&panel")


def test_names_are_text_everywhere(tab: Tab) -> None:
    tab.open("run=bad").drawn(count=15)
    assert tab.page.locator("#run-name").inner_text() == EVIL
    assert tab.page.locator("#run-state").inner_text() == "crashed"
    assert "<b>memory</b>" in tab.page.locator("#run-reason").inner_text()
    for view in ("details", "compare", "layers"):
        tab.page.get_by_role("tab", name=view, exact=False).click()
        tab.until(f"!document.querySelector('#{view}').hidden")
    tab.until("document.querySelectorAll('#layers canvas').length > 0")
    assert tab.page.title().startswith("<script>")
    assert tab.page.evaluate("document.querySelectorAll('body script, td b, td img').length") == 0


def test_an_empty_run_and_a_run_that_is_gone(tab: Tab) -> None:
    tab.open("run=empty").drawn(count=15)
    assert tab.page.locator("#deck canvas").count() == 0
    tab.open("run=nowhere")
    tab.until("!document.querySelector('#trouble').hidden")
    tab.until("document.querySelector('#trouble').textContent.includes('moved or deleted')")
    tab.until("document.querySelectorAll('#run-list .run.main').length === 1")  # the newest one instead
    tab.errors = [error for error in tab.errors if "404" not in error]  # the browser's own note of that answer


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)], ids=["laptop", "phone"])
def test_nothing_is_cut_off(window: Any, url: str, size: tuple[int, int]) -> None:
    tab = Tab(window, url, viewport={"width": size[0], "height": size[1]}, color_scheme="dark")
    tab.open("run=first").drawn(count=15)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert tab.page.evaluate("document.querySelector('main').scrollWidth") <= size[0]
    if size[0] < 500:
        tab.page.get_by_label("Show or hide the list of runs").click()
        tab.until("document.querySelector('.runs').getBoundingClientRect().left === 0")
    tab.close()


def test_zoom_and_pin_do_not_move_the_panels(tab: Tab) -> None:
    for width in (1440, 1280, 1024):
        tab.page.set_viewport_size({"width": width, "height": 800})
        tab.open("run=first").until(
            "document.querySelector('#zoomed').hidden && !document.querySelector('#deck').hidden"
        )
        before = tab.page.evaluate("document.querySelector('.head-bar').getBoundingClientRect().height")
        tab.open("run=first&lo=10&hi=30&step=20")
        tab.until("!document.querySelector('#zoomed').hidden && !document.querySelector('#pinned').hidden")
        bar = "(() => { const bar = document.querySelector('.head-bar'); "
        bar += "return [bar.getBoundingClientRect().height, bar.scrollWidth - bar.clientWidth]; })()"
        assert tab.page.evaluate(bar) == [before, 0], width


def test_a_folder_without_runs_says_how_to_start_one(window: Any, tmp_path: Path) -> None:
    with start(tmp_path, 0) as running:
        tab = Tab(window, running.url).open()
        tab.until("document.body.classList.contains('blank-slate')")
        assert "cockpit.watch(model, optimizer, loss_fn)" in tab.page.locator(".slate").inner_text()
        tab.close()


def test_the_page_follows_a_training(window: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.dashboard.trainer", str(tmp_path / "live")]
    trainer = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert trainer.stdin is not None
    assert trainer.stdout is not None

    def train(word: str = "step") -> None:
        assert trainer.stdin is not None
        trainer.stdin.write(word + "\n")
        trainer.stdin.flush()

    with start(tmp_path, 0) as running, trainer:
        tab = Tab(window, running.url).open()
        for _ in range(5):
            train()
        points = "Number(document.querySelector('#deck [data-panel=loss] .plot')?.dataset.points)"
        tab.until(f"{points} === 5")
        assert tab.page.locator("#run-state").inner_text() == "running"
        train()
        tab.until(f"{points} === 6", timeout=5)
        train("crash")
        tab.until("document.querySelector('#run-state').textContent === 'crashed'", timeout=5)
        assert "loss is NaN" in tab.page.locator("#run-reason").inner_text()
        tab.close()
