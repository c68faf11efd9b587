"""The deck on paper."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree

import pytest
from tests.panels.made import economy, run, shapes

from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import View, deck
from cockpit.panels.screen import DECK
from cockpit.plots.figure import draw, figure
from cockpit.plots.layout import lines, page

pytest.importorskip("vl_convert")

SIGNATURES = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg"}


def texts(picture: bytes) -> str:
    """Everything that is written in an SVG."""
    return " | ".join(
        "".join(node.itertext()) for node in ElementTree.fromstring(picture).iter() if node.tag.endswith("text")
    )


@pytest.mark.parametrize("format", SIGNATURES)
def test_formats(format: str) -> None:
    assert figure([run()], format, ids=["loss"]).startswith(SIGNATURES[format])


def test_the_whole_deck_is_drawn() -> None:
    written = texts(figure([run("my run")], "svg"))
    for panel in deck([run()]):
        assert (panel.title in written) == (panel.id in DECK), panel.id
    assert "my run" in written
    assert "STEP SIZE" in written
    assert "gorge or lake?" in written


def test_half_a_character_in_a_name_is_spelled_out() -> None:
    source = Recorded([Record(step, "odd\ud800", Kind.SCALAR, 1.0) for step in range(3)], "run\udcff")
    written = texts(figure([source], "svg"))
    assert "run\\udcff" in written
    assert "odd\\ud800" in texts(draw(deck([source]), format="svg"))


def test_panels_in_columns_of_a_size() -> None:
    panels = deck([run()])[:5]
    (grid,) = page(panels, "five", (), 4, (100, 50))["vconcat"]
    assert grid["columns"] == 4
    assert len(grid["concat"]) == 5
    assert {(one["width"], one["height"]) for one in grid["concat"]} == {(100, 50)}
    assert page(panels, "five", ())["vconcat"][0]["columns"] == 2  # the deck, where nothing is asked for
    assert "five" in texts(draw(panels[:1], "five", format="svg", columns=1))


def test_panels_of_one_s_own() -> None:
    panels = deck([run()])[:2]
    written = texts(draw(panels, "both", [("a", "#000000")], "svg"))
    assert panels[0].title in written
    assert panels[1].title in written
    with pytest.raises(CockpitError, match="unknown theme"):
        draw(panels, theme="pink")


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_themes(theme: str) -> None:
    assert figure([economy()], "svg", theme=theme, ids=["alpha", "eigenvalue", "tests", "loss"])


@pytest.mark.parametrize("shape", shapes())
def test_every_shape_of_run_is_drawn(shape: str) -> None:
    assert figure(shapes()[shape], "svg", View(smoothing=0.5)).startswith(b"<svg")


def test_several_runs_have_one_legend() -> None:
    written = texts(figure([run("first"), run("second")], "svg", ids=["loss", "trace"]))
    assert written.count("second") == 1
    assert "first" not in texts(figure([run("first")], "svg", ids=["loss"], title=""))


def test_why_a_panel_is_empty_is_written() -> None:
    assert "HessMaxEV was not tracked" in texts(figure([economy()], "svg", ids=["eigenvalue"]))


def test_further_panels_and_layers() -> None:
    ids = ["loss", "alpha", "cabs", "of-batch_size", "layers-heat-GradNorm", "layers-cloud-GradHist2d"]
    written = texts(figure([run()], "svg", ids=ids, title="Mine"))
    for title in ("Mine", "Alpha", "CABS batch size", "batch_size", "layer by step", "coloured by layer"):
        assert title in written


def test_scale_makes_more_pixels() -> None:
    small, large = (figure([run()], ids=["loss"], scale=scale) for scale in (1, 2))
    width = [int.from_bytes(picture[16:20], "big") for picture in (small, large)]
    assert width[1] == pytest.approx(2 * width[0], abs=2)


def test_names_of_panels_do_not_clash() -> None:
    spec = page(deck([run()]), "", [])
    names = [param["name"] for param in spec["params"]]
    assert len(names) == len(set(names))
    assert {"lo", "hi"} <= set(names)
    assert "url" not in str(spec)


def test_notes_break_between_facts() -> None:
    assert lines("one fact · another fact · a third", 120) == ["one fact · another fact", "a third"]
    assert lines("", 120) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"format": "gif"}, "unknown format 'gif'"),
        ({"theme": "sepia"}, "unknown theme 'sepia'"),
        ({"ids": []}, "ids is empty"),
        ({"ids": ["los"]}, "did you mean 'loss'"),
    ],
)
def test_wrong_input(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(CockpitError, match=says):
        figure([run()], **wrong)  # type: ignore[arg-type]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(CockpitError, match=r"pip install 'cockpit-deck\[plots\]'"):
        figure([Recorded([], "empty")])


def test_a_run_that_broke_says_so() -> None:
    lost = [Record(step, "Loss", Kind.SCALAR, float("nan") if step > 5 else 1.0) for step in range(10)]
    broke, sound = Recorded(lost, "broke"), Recorded(lost[:5], "sound")
    alone = texts(figure([broke], "svg"))
    assert alone.count("NaN since step 6") == 2, "in the heading and at the panel"
    both = texts(figure([broke, sound], "svg"))
    assert both.count("NaN since step 6: broke") == 1, "of several runs in the heading alone"
    assert "NaN" not in texts(figure([sound], "svg"))
