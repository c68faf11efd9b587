"""The deck on paper: the same panels as on the page, laid out as one picture."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from cockpit.core.errors import CockpitError, unknown
from cockpit.core.plain import plain
from cockpit.core.source import Source
from cockpit.panels import Panel, View, deck
from cockpit.panels import panel as one_panel
from cockpit.panels.runs import Runs
from cockpit.panels.screen import DECK, MORE
from cockpit.panels.theme import Theme, config
from cockpit.plots.layout import page

Format = Literal["png", "svg", "pdf"]

PAPER = {"light": "#FFFFFF", "dark": "#14181F", "print": "#FFFFFF"}


def figure(
    sources: Sequence[Source],
    format: str = "png",
    view: View | None = None,
    ids: Sequence[str] | None = None,
    title: str | None = None,
    theme: str = "light",
    scale: float = 2.0,
) -> bytes:
    """Draw the deck of one or several runs.

    Args:
        sources: Runs; several are told apart by colour.
        format: ``"png"``, ``"svg"`` or ``"pdf"``.
        view: How to look at them.
        ids: Which panels; None: the whole deck without its second page.
        title: Heading; None: the name of the run, if there is one.
        theme: ``"light"``, ``"dark"`` or ``"print"``.
        scale: Pixels of a PNG for each point.
    """
    _check(format, theme)
    view = view or View()
    heading = title if title is not None else sources[0].name if len(sources) == 1 else ""
    return draw(chosen(sources, view, ids), heading, legend(Runs(sources, view)), format, theme, scale)


def draw(
    panels: Sequence[Panel],
    title: str = "",
    runs: Sequence[tuple[str, str]] = (),
    format: str = "png",
    theme: str = "light",
    scale: float = 2.0,
    columns: int | None = None,
    size: tuple[int, int] | None = None,
) -> bytes:
    """Draw panels side by side.

    Args:
        panels: What to draw.
        title: Heading.
        runs: Name and colour of each run that the heading explains.
        format: ``"png"``, ``"svg"`` or ``"pdf"``.
        theme: ``"light"``, ``"dark"`` or ``"print"``.
        scale: Pixels of a PNG for each point.
        columns: Panels in a row; None: as on the deck.
        size: Width and height of each plot; None: as on the deck.
    """
    return render(page(panels, title, runs, columns, size), format, theme, scale)


def render(spec: Any, format: str, theme: str, scale: float) -> bytes:
    """Draw a specification that holds its data."""
    _check(format, theme)
    look = {**config(cast(Theme, theme)), "background": PAPER[theme]}
    library, write = converter(), WRITERS[format]
    try:
        return write(library, spec, look, scale)
    except ValueError as error:
        if "surrogates not allowed" not in str(error):
            raise
        return write(library, plain(spec), look, scale)  # half a character in a name


def _check(format: str, theme: str) -> None:
    if format not in WRITERS:
        raise unknown("format", format, WRITERS)
    if theme not in PAPER:
        raise unknown("theme", theme, PAPER)


def chosen(sources: Sequence[Source], view: View, ids: Sequence[str] | None) -> list[Panel]:
    """The panels with these ids; None: the whole deck without its second page."""
    if ids is None:
        return [panel for panel in deck(sources, view) if panel.id in DECK]
    if not ids:
        raise CockpitError(f"ids is empty; give ids of panels ({', '.join((*DECK, *MORE))}), or None for the deck")
    if len(ids) < 4:
        return [one_panel(sources, id, view) for id in ids]
    known = {panel.id: panel for panel in deck(sources, view)}
    return [known[id] if id in known else one_panel(sources, id, view) for id in ids]


def legend(runs: Runs) -> list[tuple[str, str]]:
    """Name and colour of each run, when there are several to tell apart."""
    return list(zip(runs.labels, runs.colours, strict=True)) if runs.several else []


def converter() -> Any:
    """The library that draws, or an error that says how to install it."""
    try:
        import vl_convert
    except ImportError:
        raise CockpitError(
            "a figure needs vl-convert-python, which is not installed: pip install 'cockpit-deck[plots]'"
        ) from None
    return vl_convert


# Nothing is fetched: a specification holds all its data, and no address is allowed.
def _png(converter: Any, spec: Any, look: Any, scale: float) -> bytes:
    return bytes(converter.vegalite_to_png(spec, config=look, scale=scale, allowed_base_urls=[]))


def _svg(converter: Any, spec: Any, look: Any, scale: float) -> bytes:
    return str(converter.vegalite_to_svg(spec, config=look, allowed_base_urls=[])).encode()


def _pdf(converter: Any, spec: Any, look: Any, scale: float) -> bytes:
    return bytes(converter.vegalite_to_pdf(spec, config=look, allowed_base_urls=[]))


WRITERS: dict[str, Callable[[Any, Any, Any, float], bytes]] = {"png": _png, "svg": _svg, "pdf": _pdf}
