"""``cockpit plot``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.plots.samples import stored

from cockpit.core.errors import CockpitError
from cockpit.plots.paper import draw

pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("runs") / "digits")


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("b.SVG", b"<svg"), ("new/c.pdf", b"%PDF")])
def test_the_suffix_is_the_format(run: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    (said,) = draw([run], out=tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert said.startswith(str(tmp_path / name))


def test_panels_title_and_theme(run: Path, tmp_path: Path) -> None:
    list(draw([run], out=tmp_path / "a.svg", panels=["loss", "grad-norm"], title="My <run>", theme="dark"))
    shown = (tmp_path / "a.svg").read_text()
    assert "My &lt;run&gt;" in shown
    assert "Gradient norm" in shown
    assert "Trace" not in shown
    list(draw([run], out=tmp_path / "b.svg", panels=["loss", "grad-norm"], title="My <run>"))
    assert (tmp_path / "b.svg").read_text() != shown


def test_several_runs_are_told_apart(run: Path, tmp_path: Path) -> None:
    other = stored(tmp_path / "other", name="other")
    list(draw([run, other], out=tmp_path / "a.svg"))
    shown = (tmp_path / "a.svg").read_text()
    assert ">digits<" in shown
    assert ">other<" in shown


@pytest.mark.parametrize("options", [{"first": 2}, {"last": 5}, {"step": 3}, {"smooth": 0.9}, {"logarithmic": True}])
def test_options_change_the_picture(run: Path, tmp_path: Path, options: dict[str, object]) -> None:
    chosen = ["loss", "hist1d", "hist1d-time"]
    list(draw([run], out=tmp_path / "plain.svg", panels=chosen))
    list(draw([run], out=tmp_path / "other.svg", panels=chosen, **options))  # type: ignore[arg-type]
    assert (tmp_path / "plain.svg").read_bytes() != (tmp_path / "other.svg").read_bytes()


def test_an_animation(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    list(draw([run], out=tmp_path / "a.png", gif=tmp_path / "a.gif", panels=["loss"], frames=2, scale=0.4))
    assert (tmp_path / "a.gif").read_bytes().startswith(b"GIF89a")
    assert (tmp_path / "a.png").is_file()


def test_panels_are_listed(run: Path) -> None:
    everything, known = list(draw([], listed=True)), list(draw([run], listed=True))
    assert any(line.startswith("loss ") and line.endswith("Loss") for line in everything)
    assert len(known) > len(everything), "this run has quantities of its own"
    assert any(line.startswith("early-stopping") and line.endswith(")") for line in known), "it has no data for this"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": Path("a.bmp")}, r"a\.bmp ends in \.bmp.*\.png, \.svg, \.pdf, \.gif, \.mp4"),
        ({"out": Path("deck")}, "ends in no suffix"),
        ({}, "where to is not said"),
        ({"out": Path("a.png"), "panels": ["lss"]}, "unknown panel 'lss'; did you mean 'loss'"),
        ({"out": Path("a.png"), "first": 5, "last": 5}, "span"),
    ],
)
def test_what_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CockpitError, match=message):
        list(draw([run], **options))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
