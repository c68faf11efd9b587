"""A run as a moving picture: the deck as it was at one step after another, on axes that stand still."""

import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from cockpit.core.errors import CockpitError
from cockpit.core.source import Source
from cockpit.core.writing import refusing, whole
from cockpit.panels import Panel, View
from cockpit.panels.runs import Runs
from cockpit.plots.artist import Artist
from cockpit.plots.figure import chosen, draw, legend
from cockpit.plots.until import Until

ANIMATIONS = ("gif", "mp4")
HOLD = 2.0  # seconds that the last frame stays
NEAR = 10  # of 255: colours that cannot be told from the paper
WORKERS = 4  # processes that draw, at most
Limits = dict[str, tuple[float, float]]  # of a panel's parameters, by name: least and largest value


def animate(
    sources: Sequence[Source],
    out: Path,
    view: View | None = None,
    ids: Sequence[str] | None = None,
    title: str | None = None,
    theme: str = "light",
    scale: float = 1.0,
    fps: float = 8.0,
    frames: int = 40,
    progress: Callable[[Iterable[bytes], int], Iterable[bytes]] = lambda frames, count: frames,
) -> None:
    """Write a GIF or an MP4, by the suffix of ``out``.

    Args:
        sources: Runs; several are drawn into the same panels.
        out: The file.
        view: How to look at them.
        ids: Which panels; None: the whole deck without its second page.
        title: Heading, to which the step is added; None: the name of the run.
        theme: ``"light"`` or ``"dark"``.
        scale: Pixels for each point.
        fps: Frames a second.
        frames: How many frames; fewer if fewer steps were recorded.
        progress: Takes the frames as they are drawn and their number, and passes them on.
    """
    write = _WRITERS[_check(out)]
    runs = Runs(sources, view or View())
    steps = moments(sources, runs, frames)
    fixed = replace(runs.view, span=runs.span, axis="log" if runs.log else "linear")
    heading = title if title is not None else ", ".join(runs.labels)
    pages = [
        (panels, f"{heading}, step {step:,}", legend(runs), "png", theme, scale)
        for step, panels in zip(steps, stills(sources, steps, fixed, ids), strict=True)
    ]
    pictures = list(progress(_drawn(pages), len(pages)))
    with refusing(out), whole(out) as part:
        write(pictures, part, fps)


def moments(sources: Sequence[Source], runs: Runs, count: int) -> list[int]:
    """Steps of the frames: recorded ones, evenly spread over the axis."""
    recorded = [source.scalar(name).steps for source in sources for name in source.kinds]
    recorded += [source.counted(name) for source in sources for name in source.kinds]
    known = np.unique(np.concatenate([np.empty(0, np.int64), *recorded]))
    if not len(known):
        raise CockpitError("nothing was recorded; there is nothing to animate")
    low, high = runs.span
    known = known[(known >= low) & (known <= high)]
    if not len(known):
        raise CockpitError(f"nothing was recorded from step {low:g} to {high:g}; choose other steps to animate")
    places = np.log1p(known - known[0]) if runs.log else known.astype(float)
    wanted = np.linspace(places[0], places[-1], count)
    return [int(step) for step in known[np.unique(np.searchsorted(places, wanted - 1e-9))]]


def stills(
    sources: Sequence[Source], steps: Sequence[int], view: View, ids: Sequence[str] | None
) -> Iterator[list[Panel]]:
    """The panels of each frame, all with the limits that the whole run needs."""
    complete = chosen(sources, view, ids)
    moving = [panel.id for panel in complete if not panel.steps and panel.empty is None]
    frames = [_moving(sources, step, view, moving) for step in steps]
    limits = {id: _limits([frame[id] for frame in frames]) for id in moving}
    for step, frame in zip(steps, frames, strict=True):
        shown = []
        for panel in complete:
            if panel.empty is None:
                panel = _still(panel, frame[panel.id], limits[panel.id]) if panel.id in frame else _cut(panel, step)
            shown.append(replace(panel, note=""))  # notes come and go, and would move everything below them
        yield shown


def _moving(sources: Sequence[Source], step: int, view: View, ids: Sequence[str]) -> dict[str, Panel]:
    """The panels that show one moment, as they were then."""
    then = [Until(source, step) for source in sources]
    return {panel.id: panel for panel in chosen(then, replace(view, step=step), ids)} if ids else {}


def _cut(panel: Panel, step: int) -> Panel:
    """Leave out what came later."""
    kept = {name: [row for row in rows if row.get("step", 0) <= step] for name, rows in panel.datasets.items()}
    return replace(panel, datasets=kept)


def _still(whole: Panel, then: Panel, limits: Limits) -> Panel:
    """A panel as it was; where there was nothing yet, its frame without data."""
    spec = whole.spec if then.empty is not None else then.spec
    data = {name: [] for name in whole.datasets} if then.empty is not None else then.datasets
    _, highs = _bounds(spec)
    params = [
        {**param, "value": limits[param["name"]][param["name"] in highs]} if param["name"] in limits else param
        for param in spec.get("params", ())
    ]
    return replace(whole, spec={**spec, "params": params}, datasets=data)


def _limits(panels: Sequence[Panel]) -> Limits:
    """Least and largest value of the parameters that bound an axis."""
    found: dict[str, list[float]] = {}
    for panel in panels:
        if panel.empty is None:
            lows, highs = _bounds(panel.spec)
            for param in panel.spec.get("params", ()):
                if param["name"] in lows | highs and isinstance(param.get("value"), int | float):
                    found.setdefault(param["name"], []).append(float(param["value"]))
    return {name: (min(values), max(values)) for name, values in found.items()}


def _bounds(spec: Any) -> tuple[set[str], set[str]]:
    """Names of the parameters that are the lower and the upper end of a scale."""
    lows: set[str] = set()
    highs: set[str] = set()
    parts: Iterable[Any] = ()
    if isinstance(spec, Mapping):
        domain, parts = spec.get("domain"), spec.values()
        if isinstance(domain, list) and len(domain) == 2:
            for end, names in zip(domain, (lows, highs), strict=True):
                names.update([end["expr"]] if isinstance(end, Mapping) and "expr" in end else [])
    elif isinstance(spec, list):
        parts = spec
    for part in parts:
        for found, inner in zip((lows, highs), _bounds(part), strict=True):
            found |= inner
    return lows, highs


def _drawn(pages: Sequence[tuple[Any, ...]]) -> Iterator[bytes]:
    """Draw pages in some processes at once, and give them in order."""
    count = max(1, min(WORKERS, os.cpu_count() or 1, len(pages)))
    with ExitStack() as stack:
        free: SimpleQueue[Artist] = SimpleQueue()
        for _ in range(count):
            artist = Artist()
            stack.callback(artist.close)
            free.put(artist)
        pool = stack.enter_context(ThreadPoolExecutor(count))
        stack.callback(partial(pool.shutdown, cancel_futures=True))
        yield from pool.map(partial(_by, free), pages)


def _by(free: "SimpleQueue[Artist]", given: tuple[Any, ...]) -> bytes:
    artist = free.get()
    try:
        return artist.call(draw, *given)
    finally:
        free.put(artist)


def _check(out: Path) -> str:
    """The format; what would fail after all frames are drawn is refused at once."""
    form = out.suffix.lower().lstrip(".")
    if form not in ANIMATIONS:
        raise CockpitError(f"{out} ends in {out.suffix or 'no suffix'}; an animation ends in .gif or .mp4")
    try:
        import_module("PIL.Image")
        import_module("vl_convert")
    except ImportError as error:
        message = f"an animation needs {error.name}, which is not installed: pip install 'cockpit-deck[plots]'"
        raise CockpitError(message) from None
    if form == "mp4" and shutil.which("ffmpeg") is None:
        raise CockpitError(f"{out}: MP4 needs the program ffmpeg, which is not on the PATH; install it, or use .gif")
    return form


def _gif(frames: Iterable[bytes], out: Path, fps: float) -> None:
    from PIL import Image

    pictures = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in frames]
    palette = _palette(pictures)
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    times = [round(1000 / fps)] * len(rest) + [round(1000 * HOLD)]
    first.save(out, save_all=True, append_images=rest, duration=times, loop=0, optimize=True)


def _palette(pictures: Sequence[Any]) -> Any:
    """One for all frames, so that no colour flickers; the paper keeps its exact colour."""
    from PIL import Image

    some = [pictures[place] for place in sorted({0, len(pictures) // 2, len(pictures) - 1})]
    together = Image.new("RGB", (some[0].width, sum(picture.height for picture in some)))
    for place, picture in enumerate(some):
        together.paste(picture, (0, place * some[0].height))
    paper = np.array(some[0].getpixel((0, 0)))
    colours = np.array(together.quantize(255).getpalette()).reshape(-1, 3)
    colours = colours[np.abs(colours - paper).max(1) > NEAR]  # else the paper is drawn in one of these
    palette = Image.new("P", (1, 1))
    palette.putpalette([*paper.tolist(), *colours.reshape(-1).tolist()])
    return palette


def _mp4(frames: Iterable[bytes], out: Path, fps: float) -> None:
    even = "pad=ceil(iw/2)*2:ceil(ih/2)*2"  # the codec takes even sizes only
    still = f"tpad=stop_mode=clone:stop_duration={HOLD}"
    shape = ["-vf", f"{even},{still}", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    command = ["ffmpeg", "-loglevel", "error", "-y", "-f", "image2pipe", "-framerate", str(fps), "-i", "-", *shape]
    done = subprocess.run([*command, str(out)], input=b"".join(frames), capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise CockpitError(f"ffmpeg could not write the film: {said}; choose another place, or write a .gif instead")


_WRITERS: dict[str, Callable[[Iterable[bytes], Path, float], None]] = {"gif": _gif, "mp4": _mp4}
