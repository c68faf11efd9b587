"""Benchmark results on paper and for the page."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.results.samples import made, several

from cockpit.core.errors import CockpitError
from cockpit.plots.bench import KINDS, figure, panels, screen

SIGNATURES = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg", "tex": b"\\documentclass"}


def texts(path: Path) -> list[str]:
    """Everything that is written in an SVG."""
    nodes = ElementTree.fromstring(path.read_bytes()).iter()
    return ["".join(node.itertext()) for node in nodes if node.tag.endswith("text")]


def drawn(folder: Path, kind: str, *arguments: Any, **options: Any) -> list[str]:
    pytest.importorskip("vl_convert")
    return texts(figure(*arguments[:1], kind, folder / "a.svg", *arguments[1:], **options))


@pytest.mark.parametrize("format", SIGNATURES)
def test_formats(tmp_path: Path, format: str) -> None:
    if format != "tex":
        pytest.importorskip("vl_convert")
    made_file = figure(several(seeds=2), "curves", tmp_path / "new" / f"a.{format}")
    assert made_file.read_bytes().startswith(SIGNATURES[format])


def test_curves(tmp_path: Path) -> None:
    words = drawn(tmp_path, "curves", several(), published=True)
    for metric in ("test loss", "train loss", "test accuracy", "train accuracy"):
        assert f"fmnist_2c2d · {metric}" in words
    assert {"Adam", "SGD", "epoch", "test accuracy (%)"} <= set(words)
    assert "mean of 3 seeds ± one standard deviation" in words
    assert "published figures lie outside, at epoch 100" in " ".join(words)  # ours had ten


@pytest.mark.parametrize("kind", KINDS)
def test_baselines_lie_behind(tmp_path: Path, kind: str) -> None:
    old = [replace(one, source="deepobs 1.1") for one in several(("SGD",))]
    words = drawn(tmp_path, kind, several(("Adam",)), old)
    assert "SGD, deepobs 1.1" in words
    assert "Adam" in words


def test_another_hyperparameter(tmp_path: Path) -> None:
    runs = [*several(("SGD",)), *(replace(one, hyperparameters={"lr": 0.1, "k": 3}) for one in several(("Adam",)))]
    words = drawn(tmp_path, "sensitivity", runs, hyperparameter="k")
    assert {"k", "Adam"} <= set(words)
    assert "SGD" not in words
    with pytest.raises(CockpitError, match="unknown hyperparameter on fmnist_2c2d 'rho'"):
        figure(runs, "sensitivity", tmp_path / "b.png", hyperparameter="rho")


def test_baselines_of_other_problems_stay_away(tmp_path: Path) -> None:
    words = drawn(tmp_path, "curves", several(("Adam",)), [made(problem="mnist_vae", source="deepobs 1.1")])
    assert not any("deepobs" in word or "mnist_vae" in word for word in words)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(tmp_path: Path, kind: str) -> None:
    words = drawn(tmp_path, kind, several(rates=(0.01, 0.1)), title="my study", published=True)
    assert "my study" in words
    assert any(word.startswith("fmnist_2c2d · ") for word in words)
    assert "Adam" in words


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_diverged_at_once(tmp_path: Path, kind: str) -> None:
    assert drawn(tmp_path, kind, [made(losses=[2.0], diverged=1)])


def test_published_figures_are_marked(tmp_path: Path) -> None:
    runs = [made("SGD", [300.0] + [87.5] * 100, problem="quadratic_deep", epochs=100, seed=seed) for seed in range(2)]
    assert "diamonds: published" in " ".join(drawn(tmp_path, "curves", runs, published=True))
    assert "grey tick: published" in " ".join(drawn(tmp_path, "final", runs, published=True))
    assert "published" not in " ".join(drawn(tmp_path, "final", runs))
    short = several(("SGD",))
    assert "published, after 100 epochs" in " ".join(drawn(tmp_path, "final", short, published=True))


def test_problems_are_chosen(tmp_path: Path) -> None:
    runs = [*several(), made("SGD", problem="mnist_vae")]
    assert not any("mnist_vae" in word for word in drawn(tmp_path, "final", runs, problems=["fmnist_2c2d"]))
    assert any("mnist_vae" in word for word in drawn(tmp_path, "curves", runs))


def test_wrong_wishes(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="unknown kind of figure 'curve'; did you mean 'curves'"):
        figure(several(), "curve", tmp_path / "a.png")
    with pytest.raises(CockpitError, match=r"unknown ending of a figure '\.gif'"):
        figure(several(), "curves", tmp_path / "a.gif")
    with pytest.raises(CockpitError, match="no results to draw"):
        figure([], "curves", tmp_path / "a.png")
    with pytest.raises(CockpitError, match=r"speed cannot be written as \.tex"):
        figure(several(), "speed", tmp_path / "a.tex")
    with pytest.raises(CockpitError, match="unknown theme 'pink'"):
        figure(several(), "curves", tmp_path / "a.png", theme="pink")
    with pytest.raises(CockpitError, match="unknown problem in these results 'mnist'"):
        figure(several(), "curves", tmp_path / "a.png", problems=["mnist"])
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(CockpitError, match=r"pip install 'cockpit-deck\[plots\]'"):
        figure(several(), "curves", tmp_path / "a.png")
    figure(several(), "curves", tmp_path / "a.tex")  # needs none


def test_panels_of_one_problem() -> None:
    runs = [*several(), made("SGD", problem="mnist_vae")]
    found = panels(runs, problem="mnist_vae")
    assert [one.id for one in found][-1] == "final-mnist_vae"
    assert len(found) == 2 + 3
    assert len(panels(runs)) == 5 + 7
    with pytest.raises(CockpitError, match="unknown problem"):
        panels(runs, problem="mnist")


def test_the_page() -> None:
    found = screen([*several(), made("SGD", problem="mnist_vae")], [replace(one, source="old") for one in several()])
    assert [panel["id"] for panel in found][:2] == ["curves-mnist_vae-test_loss", "curves-mnist_vae-train_loss"]
    assert len({panel["id"] for panel in found}) == len(found) == 2 + 4 + 3 * 2
    json.dumps(found, allow_nan=False)
    for panel in found:
        assert set(panel) == {"id", "title", "note", "spec"}
        layers = panel["spec"].get("layer", [])
        assert all(layer["data"]["name"] in panel["spec"]["datasets"] for layer in layers)


def test_specifications_of_the_page_are_drawn() -> None:
    converter = pytest.importorskip("vl_convert")
    for panel in screen(several(rates=(0.1, 1.0))):
        picture = converter.vegalite_to_svg({**panel["spec"], "width": 300}, allowed_base_urls=[])
        assert "NaN" not in picture
        assert "Adam" in picture


def test_an_empty_page() -> None:
    assert screen([]) == []
