"""Reading values off the page in a real browser: tooltips, axes, the table of runs, layers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.browser import Tab, needs_chromium
from tests.dashboard.runs import write

from cockpit import store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.dashboard.server import start

pytestmark = [needs_chromium, pytest.mark.slow]
TIP = "!document.querySelector('.tip')?.hidden && document.querySelector('.tip').innerText"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A sound run with everything, one that broke, and a net of many layers."""
    folder = tmp_path_factory.mktemp("reading")
    optimizers = [{"class": "SGD", "groups": [{"lr": 0.1}]}]
    write(folder / "sound", name="sound", config={"depth": 2}, optimizers=optimizers)
    writer = store.create(folder / "broke", {"name": "broke", "config": {"depth": 5}})
    for step in range(60):
        writer.append([Record(step, "Loss", Kind.SCALAR, 1.0 if step < 40 else math.nan)])
        writer.append([Record(step, "accuracy", Kind.SCALAR, step / 100)])
    writer.close()
    names = [f"net.h.{depth}.{part}.weight" for depth in range(20) for part in ("attn.proj", "mlp.fc")]
    writer = store.create(folder / "deep", {"name": "deep"})
    for step in range(5):
        values = {name: 1.0 + place for place, name in enumerate(names)}
        writer.append([Record(step, "GradNorm", Kind.PER_PARAMETER, values)])
    writer.close()
    with start(folder, 0) as running:
        yield running.url


@pytest.fixture
def tab(window: Any, url: str) -> Iterator[Tab]:
    found = Tab(window, url)
    yield found
    found.close()


def hover(tab: Tab, panel: str, x: float, y: float = 0.5) -> str:
    """What the tooltip says at a place of a panel's picture."""
    canvas = tab.page.locator(f".page:not([hidden]) [data-panel={panel}] canvas")
    while (box := canvas.bounding_box()) is None:  # it is just drawn anew
        canvas.wait_for()
    tab.page.mouse.move(2, 2)
    tab.until("!document.querySelector('.tip') || document.querySelector('.tip').hidden")
    for shift in (0, 1):
        tab.page.mouse.move(box["x"] + box["width"] * x + shift, box["y"] + box["height"] * y)
    said: str = tab.until(TIP)
    return said


def test_every_kind_of_chart_says_what_lies_under_the_pointer(tab: Tab) -> None:
    tab.open("run=sound").drawn(count=15)
    line = hover(tab, "tests-time", 0.6).split("\n")
    assert line[0].startswith("step ")
    assert [name for name in ("norm", "inner", "ortho") if name in line] == ["norm", "inner", "ortho"]
    assert "layer" in (cell := hover(tab, "trace-layers", 0.5))
    assert "HessTrace" in cell
    assert "elements" in hover(tab, "hist1d", 0.53, 0.7)
    assert "critical 0.9" in hover(tab, "tests", 0.5, 0.4)
    assert "last steps" in hover(tab, "alpha", 0.5)
    assert "elements" in hover(tab, "hist2d", 0.46, 0.12)
    tab.page.mouse.move(2, 2)
    tab.until("document.querySelector('.tip').hidden")


def test_layers_are_named_in_full_under_the_pointer_and_apart_on_the_axis(tab: Tab) -> None:
    tab.open("run=deep&tab=layers").drawn("layers", 2)
    assert "net.h." in hover(tab, "layers-heat-GradNorm", 0.5)
    many = hover(tab, "layers-lines-GradNorm", 0.4)
    assert "and 26 more" in many
    assert "mlp.fc" in many


def test_a_run_that_broke_says_so(tab: Tab) -> None:
    tab.open("run=broke").drawn(count=15)
    assert tab.page.locator("#run-broken").inner_text() == "NaN since step 40"
    tab.until("document.querySelector('#deck [data-panel=loss] .alarm').textContent.startsWith('NaN')")
    assert tab.page.locator("#tab-findings").is_hidden(), "nothing judges"
    assert tab.page.locator("#lamps").is_hidden()


def test_the_view_reaches_the_address_and_the_axes(tab: Tab) -> None:
    tab.open("run=sound").drawn(count=15)
    tab.page.keyboard.press("v")
    tab.page.locator("#x button[value=time]").click()
    tab.page.locator("#y button[value=log]").click()
    tab.page.keyboard.press("Escape")
    tab.until("location.hash.includes('x=time') && location.hash.includes('y=log')")
    last = "Number(document.querySelector('#deck [data-panel=loss] .plot').dataset.last)"
    assert tab.until(f"{last} > 1000 && {last}") == pytest.approx(0.39e6, rel=0.02)  # 0.01 s a step
    assert hover(tab, "loss", 0.5).startswith("0.")


def test_runs_in_a_table_are_sorted_and_opened(tab: Tab) -> None:
    names = "[...document.querySelectorAll('#table tbody .open-run')].map((name) => name.textContent).join()"
    tab.open("run=sound&tab=table").until(f"{names}.includes('deep')")
    heads = tab.page.locator("#table thead th").all_inner_texts()
    assert {"depth", "accuracy\nhighest", "Loss\nlowest", "duration"} <= {head.removesuffix(" ↓") for head in heads}
    tab.page.locator("#table thead button", has_text="highest").click()
    tab.until(f"{names} === 'broke,sound,deep'")  # 0.59, 0.54, none
    tab.page.locator("#table thead button", has_text="highest").click()
    tab.until(f"{names} === 'sound,broke,deep'")
    assert "NaN since step 40" in tab.page.locator("#table [data-run=broke]").inner_text()
    tab.page.locator("#table [data-run=broke] .open-run").click()
    tab.until("document.querySelector('#run-name').textContent === 'broke'")


def test_the_list_of_runs_is_as_wide_as_one_wants(tab: Tab) -> None:
    width = "document.querySelector('.runs').getBoundingClientRect().width"
    tab.open("run=sound").until(f"{width} === 232")
    box = tab.page.locator("#divider").bounding_box()
    tab.page.mouse.move(box["x"] + 3, 400)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 103, 400, steps=3)
    tab.page.mouse.up()
    assert tab.page.evaluate(width) == 332
    tab.page.reload()
    tab.until(f"{width} === 332")


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (390, 844)])
def test_a_small_window_shows_facts_whole_or_not_at_all(window: Any, url: str, width: int, height: int) -> None:
    tab = Tab(window, url, viewport={"width": width, "height": height})
    for view in ("run=sound", "run=broke&x=step", "run=sound&run=broke&y=log"):
        tab.open(view)
        tab.drawn(count=16)
        facts = "[...document.querySelectorAll('#deck .says span span')]"
        line = (
            "(part) => part.offsetTop < part.parentNode.parentNode.offsetTop + part.parentNode.parentNode.offsetHeight"
        )
        shown = f"{facts}.filter({line})"
        assert tab.page.evaluate(f"{shown}.length") > 3
        assert tab.page.evaluate(f"{shown}.filter((part) => part.scrollWidth > part.clientWidth + 1).length") == 0
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing to the right"
    tab.close()


def test_epochs_are_an_axis_where_they_were_logged(window: Any, tmp_path: Path) -> None:
    writer = store.create(tmp_path / "run", {"name": "run"})
    for step in range(40):
        known = [Record(step, "Loss", Kind.SCALAR, 1.0 / (1 + step))]
        writer.append(known + [Record(step, "epoch", Kind.SCALAR, step / 10)] * (step % 10 == 0))
    writer.close()
    with start(tmp_path, 0) as running:
        tab = Tab(window, running.url).open("run=run")
        tab.drawn(count=16)
        tab.page.keyboard.press("v")
        tab.page.locator("#x button[value=epoch]").click()
        plot = "document.querySelector('[data-panel=loss] .plot').dataset"
        tab.until(f"+{plot}.last === 3.9e6")
        assert tab.page.locator("#view-said").inner_text() == "epochs"
        tab.page.keyboard.press("Escape")
        said = hover(tab, "loss", 0.55).split()
        assert said[0] == "epoch"
        assert 1.5 < float(said[1]) < 2.5
        tab.close()
