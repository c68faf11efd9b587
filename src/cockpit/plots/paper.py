"""``cockpit plot``: the deck of runs, or panels of it, to a file."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cockpit.core.errors import CockpitError
from cockpit.core.recorded import Recorded
from cockpit.core.source import Source
from cockpit.panels import View, deck
from cockpit.plots.animation import ANIMATIONS, animate
from cockpit.plots.figure import figure
from cockpit.plots.reading import one

FIGURES = ("png", "svg", "pdf")
END = 2**53  # beyond any step


def draw(
    runs: Sequence[Path],
    *,
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
    layers: str | None = None,
    scale: float | None = None,
    fps: float = 8.0,
    frames: int = 40,
) -> Iterator[str]:
    """Draw what the command line asks for; yield what there is to say about it."""
    sources: list[Source] = [one(path) for path in runs]
    view = View(
        axis="auto" if logarithmic is None else "log" if logarithmic else "linear",
        span=_span(sources, first, last),
        smoothing=smooth,
        layers=layers,
        step=step,
    )
    if listed:
        yield from _list(sources, view)
        return
    targets = [path for path in (out, gif) if path is not None]
    if not targets:
        raise CockpitError("where to is not said; give -o deck.png, .svg or .pdf, or --gif deck.gif")
    sources = sources or [one(None)]
    for path in targets:
        form = _format(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if form in FIGURES:
            drawn = figure(sources, form, view, ids=panels or None, title=title, theme=theme, scale=scale or 2.0)
            path.write_bytes(drawn)
        else:
            animate(sources, path, view, panels or None, title, theme, scale or 1.0, fps, frames, _watched)
        yield f"{path}  {path.stat().st_size:,} bytes"


def _watched(frames: Iterable[bytes], count: int) -> Iterable[bytes]:
    """A progress bar, where somebody looks."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(frames, "drawing", count, console=console, transient=True, disable=not console.is_terminal)


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
    ends = [int(series.steps[-1]) for source in sources for name in source.kinds if len(series := source.scalar(name))]
    return float(first or 0), float(last if last is not None else max(ends, default=END))


def _list(sources: Sequence[Source], view: View) -> Iterator[str]:
    """The panels that these runs, or any runs, have."""
    found = deck(sources or [Recorded([])], view)
    width = max(len(panel.id) for panel in found)
    for panel in found:
        missing = f"  ({panel.empty})" if panel.empty and sources else ""
        yield f"{panel.id:{width}}  {panel.group:11}  {panel.title}{missing}"
