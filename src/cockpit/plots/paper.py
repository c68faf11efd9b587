"""``cockpit plot``: the deck of runs, or panels of it, to a file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, cast

from cockpit.core.errors import CockpitError
from cockpit.core.recorded import Recorded
from cockpit.core.source import Source
from cockpit.core.writing import refusing, whole
from cockpit.panels import View, deck
from cockpit.panels.net import layers_of
from cockpit.plots.animation import ANIMATIONS, animate
from cockpit.plots.colours import colours
from cockpit.plots.figure import figure
from cockpit.plots.reading import single

FIGURES = ("png", "svg", "pdf")
SAID = 8  # layers in a message


def draw(
    runs: Sequence[Path],
    *,
    note: Callable[[str], object] = print,
    out: Path | None = None,
    gif: Path | None = None,
    panels: Sequence[str] = (),
    listed: bool = False,
    title: str | None = None,
    theme: str = "light",
    logarithmic: bool | None = None,
    step: int | None = None,
    first: int | None = None,
    last: int | None = None,
    smooth: float = 0.0,
    clock: bool = False,
    epochs: bool = False,
    y: str = "auto",
    every: bool = False,
    layers: str | None = None,
    scale: float | None = None,
    fps: float = 8.0,
    frames: int = 40,
) -> Iterator[str]:
    """Draw what the command line asks for; yield what was made, and ``note`` what else there is to say about it."""
    targets = [path for path in (out, gif) if path is not None]
    if not listed:
        _check(targets, gif)
    sources: list[Source] = [single(path) for path in runs]
    if not sources and not listed:
        sources = [single(None)]
    x = _x(clock, epochs, (first, last, step) != (None, None, None))
    _check_layers(sources, layers)
    view = View(
        axis="auto" if logarithmic is None else "log" if logarithmic else "linear",
        span=_span(sources, first, last),
        smoothing=smooth,
        layers=layers,
        step=step,
        x=x,
        y=cast(Literal["auto", "log", "linear"], y),
        band=not every,
        colours=colours(runs) if len(runs) > 1 else None,
    )
    if listed:
        yield from _list(sources, view)
        return
    if step is not None:
        _say_which(sources, step, note)
    for path in targets:
        with refusing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        form = _format(path)
        if form in FIGURES:
            drawn = figure(sources, form, view, ids=panels or None, title=title, theme=theme, scale=scale or 2.0)
            with refusing(path), whole(path) as part:
                part.write_bytes(drawn)
        else:
            animate(sources, path, view, panels or None, title, theme, scale or 1.0, fps, frames, _watched)
        yield f"{path}  {path.stat().st_size:,} bytes"


def _watched(frames: Iterable[bytes], count: int) -> Iterable[bytes]:
    """A progress bar, where somebody looks."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(frames, "drawing", count, console=console, transient=True, disable=not console.is_terminal)


def _check(targets: Sequence[Path], gif: Path | None) -> None:
    """Refuse at once what cannot become a picture."""
    if not targets:
        raise CockpitError("where to is not said; give -o deck.png, .svg or .pdf, or --gif deck.gif")
    for path in targets:
        _format(path)
        if path.is_dir():
            raise CockpitError(f"{path} is a folder; give the name of a file")
    if gif is not None and _format(gif) not in ANIMATIONS:
        raise CockpitError(f"--gif {gif} ends in {gif.suffix}; an animation ends in .gif or .mp4, for a figure use -o")


def _x(clock: bool, epochs: bool, counted: bool) -> Literal["step", "time", "epoch"]:
    """What the horizontal axis counts; refuse two units at once."""
    if clock and epochs:
        raise CockpitError("--clock and --epochs are two units of one axis; give one of them")
    if (clock or epochs) and counted:
        raise CockpitError(
            f"--from, --to and --step count steps; leave them out with {'--clock' if clock else '--epochs'}"
        )
    return "time" if clock else "epoch" if epochs else "step"


def _check_layers(sources: Sequence[Source], pattern: str | None) -> None:
    """Refuse a filter that leaves no layer of any run."""
    if pattern is None:
        return
    there: dict[str, None] = {}
    for source in sources:
        keys = dict.fromkeys(key for name in source.kinds for key in source.parts(name).keys)
        if layers_of(source, list(keys), pattern):
            return
        there |= {layer.name: None for layer in layers_of(source, list(keys))}
    if there:
        some = ", ".join([*there][:SAID]) + (", ..." if len(there) > SAID else "")
        raise CockpitError(f"--layers {pattern} matches none of the {len(there)} layers; there are {some}")


def _format(path: Path) -> str:
    form = path.suffix.lower().lstrip(".")
    if form not in (*FIGURES, *ANIMATIONS):
        known = ", ".join(f".{name}" for name in (*FIGURES, *ANIMATIONS))
        raise CockpitError(f"{path} ends in {path.suffix or 'no suffix'}, which is no format for a figure; use {known}")
    return form


def _span(sources: Sequence[Source], first: int | None, last: int | None) -> tuple[float, float] | None:
    """Both ends, where one is given: the other is that of the runs."""
    if first is None and last is None:
        return None
    low, high = _reach(sources) or (0, max(first or 0, last or 0) + 1)
    begin, end = first or 0, high if last is None else last
    if begin >= end:
        asked = f"--from {begin}" if last is None else f"--from {begin} --to {end}"
        raise CockpitError(f"{asked} leaves no step to show; steps {low} to {high} were recorded")
    if end < low:
        raise CockpitError(f"--to {end} leaves no step to show; steps {low} to {high} were recorded")
    return float(begin), float(end)


def _reach(sources: Sequence[Source]) -> tuple[int, int] | None:
    """The first and the last step with a value."""
    found = [series.steps for source in sources for name in source.kinds if len(series := source.scalar(name))]
    found += [steps for source in sources for name in source.kinds if len(steps := source.counted(name))]
    return (min(int(steps[0]) for steps in found), max(int(steps[-1]) for steps in found)) if found else None


def _say_which(sources: Sequence[Source], step: int, note: Callable[[str], object]) -> None:
    """Which step is shown, where a run does not have the one that is asked for."""
    for source in sources:
        reach = _reach([source])
        if reach is not None and not reach[0] <= step <= reach[1]:
            end, shown = ("last", reach[1]) if step > reach[1] else ("first", reach[0])
            note(f"{source.name}: --step {step} was not recorded; step {shown}, the {end} one, is shown")


def _list(sources: Sequence[Source], view: View) -> Iterator[str]:
    """The panels that these runs, or any runs, have."""
    found = deck(sources or [Recorded([])], view)
    width = max(len(panel.id) for panel in found)
    for panel in found:
        missing = f"  ({panel.empty})" if panel.empty and sources else ""
        yield f"{panel.id:{width}}  {panel.group:11}  {panel.title}{missing}"
