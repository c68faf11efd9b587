"""The deck as a whole: stable, complete, safe to send, and understood by Vega-Lite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.panels.made import economy, run, shapes

from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.recorded import Recorded
from cockpit.panels import Panel, View, deck, layers, panel
from cockpit.panels.names import QUANTITIES
from cockpit.panels.screen import DECK, MORE

VIEWS = {
    "plain": View(),
    "zoomed": View(axis="log", span=(3, 20), smoothing=0.6, step=4, range="auto", points=20),
}
GROUPS = {"step size": 4, "gradients": 4, "curvature": 4, "performance": 4}


def everything(sources: list[Recorded], view: View) -> list[Panel]:
    made = deck(sources, view)
    for source in sources[:1]:
        for name, kind in source.kinds.items():
            if kind in (Kind.PER_PARAMETER, Kind.HISTOGRAM):
                made += layers(source, view, name)
    return made


def names_of_data(spec: Any) -> set[str]:
    if isinstance(spec, list):
        return set().union(*(names_of_data(part) for part in spec)) if spec else set()
    if not isinstance(spec, dict):
        return set()
    found = {spec["data"]["name"]} if "data" in spec else set()
    return found.union(*(names_of_data(part) for part in spec.values()))


@pytest.mark.parametrize("shape", shapes())
def test_ids_and_order_never_change(shape: str) -> None:
    made = deck(shapes()[shape])
    assert [one.id for one in made][: len(DECK) + len(MORE)] == [*DECK, *MORE]
    assert len({one.id for one in made}) == len(made)
    assert {group: sum(one.group == group for one in made) for group in GROUPS} == GROUPS


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("shape", shapes())
def test_panels_are_plain_data(shape: str, view: str) -> None:
    for one in everything(shapes()[shape], VIEWS[view]):
        json.dumps([one.spec, dict(one.datasets)], allow_nan=False)
        assert names_of_data(one.spec) <= set(one.datasets)
        assert not {"width", "height"} & set(one.spec), "the page gives the size"
        assert (one.empty is None) or not any(one.datasets.values())
        assert len(one.aid) > 60
        if one.steps and one.empty is None:
            assert {"lo", "hi"} <= {param["name"] for param in one.spec["params"]}


@pytest.mark.parametrize("shape", ["one", "long", "two", "economy", "one step", "not finite", "deep"])
def test_vega_lite_understands_them_without_a_warning(shape: str, capfd: pytest.CaptureFixture[str]) -> None:
    converter = pytest.importorskip("vl_convert")
    for one in everything(shapes()[shape], VIEWS["zoomed" if shape == "long" else "plain"]):
        if one.empty is None:
            converter.vegalite_to_vega({**one.spec, "datasets": dict(one.datasets)}, show_warnings=True)
            assert capfd.readouterr().err == "", one.id


@pytest.mark.parametrize("name", QUANTITIES)
def test_every_quantity_has_a_panel(name: str) -> None:
    showing = [one for one in deck([run()]) if name in one.names]
    assert showing
    assert all(one.empty is None for one in showing)


@pytest.mark.parametrize("id", [*DECK, *MORE])
def test_every_panel_is_explained(id: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "instruments.md").read_text(encoding="utf-8")
    shown = panel([run()], id)
    assert f"{shown.title} `{id}`" in page


def test_a_full_deck_has_no_empty_panel() -> None:
    assert [one.id for one in deck([run()]) if one.empty] == []


def test_economy_says_what_to_track() -> None:
    empty = {one.id: one.empty for one in deck([economy()]) if one.empty}
    assert set(empty) == {"hist2d", "eigenvalue", "trace", "tic", "trace-layers", "cabs", "early-stopping", "gsnr"}
    assert 'quantities="full"' in str(empty["eigenvalue"])
    assert 'quantities="business"' in str(empty["trace"])
    assert "'CABS'" in str(empty["cabs"])


def test_empty_runs_and_no_runs() -> None:
    assert {one.empty for one in deck([Recorded([], "new")]) if one.id != "metrics"} == {
        "Nothing has been measured yet."
    }
    assert all(one.empty for one in deck([]))


@pytest.mark.parametrize("id", [*DECK, *MORE, "of-Parameters", "of-batch_size"])
def test_one_panel_is_the_same_as_on_the_deck(id: str) -> None:
    source = run()
    assert panel([source], id) == {one.id: one for one in deck([source])}[id]


def test_unknown_panel() -> None:
    with pytest.raises(CockpitError, match="did you mean 'trace'"):
        panel([run()], "tracee")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"axis": "logarithmic"}, "give 'auto', 'log' or 'linear'"),
        ({"range": "all"}, "give 'fixed' or 'auto'"),
        ({"smoothing": 1.0}, "give a number from 0 to 0.99"),
        ({"points": 2}, "give 8 or more"),
        ({"span": (5, 5)}, "the first one smaller"),
    ],
)
def test_views_are_checked(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(CockpitError, match=says):
        View(**wrong)


def test_only_parameters_change_when_data_arrive() -> None:
    """A page feeds data and parameters to a chart that stands: its specification must not change with every step."""
    early, late = (deck([run(steps=range(0, last, 2))]) for last in (60, 80))
    for before, after in zip(early, late, strict=True):
        assert {**before.spec, "params": None} == {**after.spec, "params": None}, before.id
