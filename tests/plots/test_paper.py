"""``cockpit plot``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.plots.samples import stored
from tests.running import python

from cockpit import store
from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
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


def test_a_filter_that_leaves_no_layer_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="--layers zzz matches none of the 1 layers; there are 0"):
        list(draw([run], out=tmp_path / "a.svg", layers="zzz"))
    assert not (tmp_path / "a.svg").exists()
    list(draw([run], out=tmp_path / "b.svg", layers="0", panels=["trace-layers"]))


def test_over_the_wall_clock_steps_are_not_counted(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="leave them out with --clock"):
        list(draw([run], out=tmp_path / "a.svg", clock=True, first=3))
    with pytest.raises(CockpitError, match="add 'Time' to the quantities"):
        list(draw([run], out=tmp_path / "a.svg", clock=True))
    with pytest.raises(CockpitError, match="leave them out with --epochs"):
        list(draw([run], out=tmp_path / "a.svg", epochs=True, step=3))
    with pytest.raises(CockpitError, match="give one of them"):
        list(draw([run], out=tmp_path / "a.svg", epochs=True, clock=True))
    with pytest.raises(CockpitError, match=r"pit.log\(epoch=3\)"):
        list(draw([run], out=tmp_path / "a.svg", epochs=True))


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


@pytest.mark.parametrize(("step", "said"), [(9999, "step 9, the last one, is shown"), (9, ""), (0, "")])
def test_a_step_that_was_not_recorded(run: Path, tmp_path: Path, step: int, said: str) -> None:
    notes: list[str] = []
    list(draw([run], out=tmp_path / "a.svg", panels=["hist1d"], step=step, note=notes.append))
    assert said in "".join(notes)
    assert bool(notes) == bool(said)


def test_a_run_that_begins_later(tmp_path: Path) -> None:
    writer = store.create(tmp_path / "late", {"name": "late"}, first_step=100)
    writer.append([Record(step, "Loss", Kind.SCALAR, 1.0) for step in (100, 110)])
    writer.close()
    notes: list[str] = []
    list(draw([tmp_path / "late"], out=tmp_path / "a.svg", panels=["loss"], step=3, note=notes.append))
    assert notes == ["late: --step 3 was not recorded; step 100, the first one, is shown"]
    with pytest.raises(CockpitError, match="--to 50 leaves no step to show; steps 100 to 110"):
        list(draw([tmp_path / "late"], out=tmp_path / "b.svg", last=50))
    with pytest.raises(CockpitError, match="nothing was recorded from step 101 to 105"):
        list(draw([tmp_path / "late"], gif=tmp_path / "b.gif", first=101, last=105))
    list(draw([tmp_path / "late"], listed=True, first=3))


@pytest.mark.parametrize("option", ["out", "gif"])
@pytest.mark.parametrize("name", ["file/a{}", "file/below/a{}", "folder{}"])
def test_a_place_that_takes_no_file(run: Path, tmp_path: Path, option: str, name: str) -> None:
    suffix = {"out": ".png", "gif": ".gif"}[option]
    (tmp_path / "file").write_text("")
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(CockpitError, match=r"cannot be written|is a folder"):
        list(draw([run], panels=["loss"], frames=2, scale=0.3, **{option: tmp_path / name.format(suffix)}))  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", f"folder{suffix}"]


FULL = """
import resource, sys
from pathlib import Path
from cockpit.plots.paper import draw

resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
try:
    list(draw([Path(sys.argv[1])], panels=["loss"], frames=2, scale=0.3, **{sys.argv[2]: Path(sys.argv[3])}))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
@pytest.mark.parametrize(("option", "name"), [("out", "a.png"), ("out", "a.svg"), ("gif", "a.gif")])
def test_a_full_disk_leaves_the_old_picture(run: Path, tmp_path: Path, option: str, name: str) -> None:
    (tmp_path / name).write_text("before")
    done = python("-c", FULL, run, option, name, cwd=tmp_path)
    assert done.stdout == f"CockpitError {name} cannot be written: File too large; choose another place\n"
    assert not done.stderr
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "before")]


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
        ({"out": Path("a.png"), "first": 5, "last": 5}, "--from 5 --to 5 leaves no step to show; steps 0 to 9"),
        ({"out": Path("a.png"), "first": 1000}, "--from 1000 leaves no step to show; steps 0 to 9 were recorded"),
        ({"gif": Path("a.png")}, r"--gif a\.png ends in \.png; an animation ends in \.gif or \.mp4"),
        ({"out": Path("b.png"), "gif": Path("a.svg")}, r"--gif a\.svg ends in \.svg"),
    ],
)
def test_what_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CockpitError, match=message):
        list(draw([run], **options))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
