"""A run as a moving picture."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from tests.plots.samples import METADATA, records

from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import Panel, View
from cockpit.panels.runs import Runs
from cockpit.plots import animation
from cockpit.plots.animation import animate, moments, stills

image = pytest.importorskip("PIL.Image")
pytest.importorskip("vl_convert")


def run(steps: int = 10) -> Recorded:
    return Recorded(records(steps), "digits", METADATA)


def params(panel: Panel) -> dict[str, object]:
    return {param["name"]: param["value"] for param in panel.spec.get("params", ()) if "value" in param}


def test_moments_are_recorded_steps_up_to_the_last() -> None:
    source = Recorded([Record(step, "Loss", Kind.SCALAR, 1.0) for step in range(0, 1000, 10)])
    linear = moments([source], Runs([source], View(axis="linear")), 5)
    assert linear == [0, 250, 500, 750, 990]
    log = moments([source], Runs([source], View(axis="log")), 5)
    assert log[0] == 0
    assert log[-1] == 990
    assert (np.diff(np.diff(log)) > 0).all(), "dense at the start, where much happens"


def test_only_names_of_animations(tmp_path: Path) -> None:
    for name in ("run.png", "run"):
        with pytest.raises(CockpitError, match=r"ends in .*; an animation ends in \.gif or \.mp4"):
            animate([run()], tmp_path / name)


def test_nothing_to_animate() -> None:
    with pytest.raises(CockpitError, match="nothing was recorded"):
        moments([Recorded([])], Runs([Recorded([])], View()), 5)


def test_frames_show_what_was_known_then() -> None:
    frames = list(stills([run()], [0, 5, 9], View(), ["loss", "hist1d"]))
    shown = [max(row["step"] for row in loss.datasets["lines"]) for loss, _ in frames]
    assert shown == [0, 5, 9]


def test_axes_stand_still() -> None:
    """Also those of panels that show one moment: their limits are those of all frames."""
    sources = [Record(step, "NormTest", Kind.SCALAR, 10.0 * (step + 1)) for step in range(4)]
    sources += [Record(step, "Alpha", Kind.SCALAR, float(step)) for step in range(1, 4)]
    frames = list(stills([Recorded(sources)], [0, 1, 2, 3], View(), ["tests", "tests-time", "alpha"]))
    for panels in zip(*frames, strict=True):
        lows, highs = animation._bounds(panels[0].spec)
        limits = [{name: params(panel).get(name) for name in lows | highs} for panel in panels]
        assert limits[0]
        assert all(limit == limits[0] for limit in limits)
        assert not any(panel.empty for panel in panels), "nothing yet is an empty frame, not another picture"
    gauge = [frame[0].datasets["ball"] for frame in frames]
    assert gauge[0] != gauge[-1]


def test_a_gif(tmp_path: Path) -> None:
    counted: list[int] = []

    def progress(frames, count):  # type: ignore[no-untyped-def]
        counted.append(count)
        return frames

    animate([run()], tmp_path / "run.gif", ids=["loss"], frames=3, fps=5, scale=0.5, progress=progress)
    with image.open(tmp_path / "run.gif") as picture:
        assert picture.n_frames == 3
        times, sizes = [], set()
        for frame in range(3):
            picture.seek(frame)
            times.append(picture.info["duration"])
            sizes.add(picture.size)
    assert times == [200, 200, 2000], "the last frame stays"
    assert len(sizes) == 1
    assert counted == [3]


def test_mp4_without_ffmpeg_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CockpitError, match=r"ffmpeg.*\.gif"):
        animate([run()], tmp_path / "run.mp4")


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for ffmpeg")
@pytest.mark.parametrize("works", [True, False])
def test_mp4_goes_through_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool) -> None:
    """A stand-in that keeps what it is given: pictures one after another, and the name of the file."""
    fake = tmp_path / "ffmpeg"
    fake.write_text(f'#!/bin/sh\nfor last; do :; done\ncat > "$last"\n{"" if works else "echo no codec >&2; exit 1"}\n')
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    out = tmp_path / "run.mp4"
    if works:
        animate([run()], out, ids=["loss"], frames=2, scale=0.3)
        assert out.read_bytes().count(b"\x89PNG") == 2
        image.open(io.BytesIO(out.read_bytes())).verify()
    else:
        with pytest.raises(CockpitError, match="no codec"):
            animate([run()], out, ids=["loss"], frames=2, scale=0.3)
