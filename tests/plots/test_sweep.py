"""A sweep's report as a page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.results.sweeps.plans import plan
from tests.results.sweeps.test_cells import filled
from tests.results.sweeps.test_formats import example, made

from cockpit.plots.sweep import page
from cockpit.plots.sweep_panels import drawings
from cockpit.results.sweeps.reading import read
from cockpit.results.sweeps.report import Report

pytest.importorskip("vl_convert")
VOID = ("meta", "br", "img")


class Nesting(HTMLParser):
    """Tags that are opened are closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_one_file_that_holds_all_it_shows(tmp_path: Path) -> None:
    text = page(example(tmp_path), published=True)
    nesting = Nesting()
    nesting.feed(text)
    assert nesting.open == []
    assert not {"script", "link", "img", "iframe"} & nesting.seen
    assert not re.search(r"(src|href)=\"(?!#)", text.replace("xmlns:xlink", ""))
    assert "@import" not in text
    assert "url(http" not in text
    for heading in ("Performance", "Tuned against untuned", "Side by side", "Learning curves", "Settings"):
        assert f"<h2>{heading}</h2>" in text
    assert "[B.3*]" in text
    assert "cockpit bench run quadratic_deep -o SGD" in text
    assert "NaN" not in text


def test_drawings_follow_the_theme(tmp_path: Path) -> None:
    text = page(example(tmp_path))
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) > 6
    for picture in pictures:
        ElementTree.fromstring(picture)
        assert "#333a44" not in picture.lower()
    assert "var(--ink)" in text
    assert "prefers-color-scheme: dark" in text


def test_names_are_no_markup(tmp_path: Path) -> None:
    store = filled(tmp_path, plan(name="<b>study</b>"))
    text = page(Report(read(store)))
    assert "<b>study" not in text
    assert "&lt;b&gt;study" in text


def test_what_is_drawn(tmp_path: Path) -> None:
    found = drawings(example(tmp_path, tuning_seeds=2, schedules=("constant", "cosine")))
    ids = [panel.id for one in found for panel in one.panels]
    assert len(ids) == len(set(ids))
    assert {one.heading for one in found} == {
        *("Tuned against untuned", "What tuning and schedules give", "Side by side", "Stability", "Learning curves"),
        *("Several untuned optimizers, or tuning one", "Better, worse, or noise"),
    }
    matrix = next(panel for one in found for panel in one.panels if panel.id.startswith("matrix-quadratic_deep"))
    assert [row["t"] for row in matrix.datasets["cells"] if row["r"] == "SGD"] == ["+0.00", "+1.0"]


def test_nothing_tuned(tmp_path: Path) -> None:
    store = filled(tmp_path, plan(budgets=("oneshot",)), made)
    text = page(Report(read(store)))
    assert "<h2>Performance</h2>" in text
    assert "Tuned against untuned" not in text


def test_every_seed_diverged(tmp_path: Path) -> None:
    from tests.results.sweeps.plans import entry

    store = filled(tmp_path, plan(seeds=2), lambda spec: entry(spec, state="diverged", diverged=1, length=1))
    text = page(Report(read(store)))
    assert "diverged (2 of 2)" in text
