"""``CockpitPlotter``: the deck of a run as a figure, in a notebook, or as text in the terminal."""

from pathlib import Path
from typing import Any

from cockpit.core.errors import CockpitError
from cockpit.core.source import Source
from cockpit.core.writing import refusing, whole
from cockpit.panels import View, deck
from cockpit.plots import text
from cockpit.plots.console import console
from cockpit.plots.notebook import html, inside, put
from cockpit.plots.reading import file_name, read
from cockpit.plots.until import Until


class CockpitPlotter:
    """Shows a run: step size, gradients and curvature, with performance below."""

    def __init__(self, secondary_screen: bool = False) -> None:
        """Set which pages are drawn.

        Args:
            secondary_screen: Add the second page.
        """
        self.secondary_screen = secondary_screen

    def plot(
        self,
        source: Any,
        savedir: str | Path | None = None,
        show_plot: bool = True,
        save_plot: bool = False,
        savename_append: str | None = None,
        block: bool = False,
        show_log_iter: bool = False,
        discard: int | None = None,
        plot_title: str | None = None,
        debug: bool = False,
        format: str = "png",
    ) -> None:
        """Show the deck, or write it to a file.

        Args:
            source: A watch, a run of :func:`cockpit.open_run`, a run folder, or a log of the original Cockpit: its path
                (with or without ``.json``) or its dictionary.
            savedir: Folder for the figure; None: that of the run or the log.
            show_plot: Show the deck: a picture in a notebook, text in a terminal.
            save_plot: Write the figure to ``<name of the log>.<format>``.
            savename_append: Appended to the name of the figure.
            block: Accepted and ignored.
            show_log_iter: Draw a logarithmic step axis.
            discard: Last step to show; None: all.
            plot_title: Heading; None: the name of the log.
            debug: Accepted and ignored.
            format: Format of the figure: ``"png"``, ``"svg"`` or ``"pdf"``.
        """
        run = read(source)
        shown: Source = run if discard is None else Until(run, discard)
        title = run.name if plot_title is None else plot_title
        saved = None
        if save_plot:
            saved = _target(run, savedir or getattr(source, "folder", None), savename_append, format)
            drawn = self._figure(shown, title, show_log_iter, format)
            with refusing(saved), whole(saved) as part:
                part.write_bytes(drawn)
        if show_plot:
            _show(shown, title, show_log_iter)
            if saved is not None:
                console().print(f"saved {saved}", markup=False, highlight=False, soft_wrap=True)

    def _figure(self, source: Source, title: str, log_steps: bool, format: str) -> bytes:
        from cockpit.plots.figure import figure

        view = _view(log_steps)
        panels = deck([source], view)
        ids = [panel.id for panel in panels if self.secondary_screen or panel.group != "more"]
        return figure([source], format, view=view, ids=ids, title=title)


def _view(log_steps: bool) -> View:
    return View(axis="log" if log_steps else "auto")


def _show(source: Source, title: str, log_steps: bool) -> None:
    if inside():
        put(html(source, title, _view(log_steps)))
        return
    text.write(console(), title, source, log_steps)


def _target(run: Source, savedir: str | Path | None, append: str | None, format: str) -> Path:
    place = savedir if savedir is not None else getattr(run, "path", None)
    if place is None:
        raise CockpitError("save_plot=True needs a folder; give savedir=")
    folder = Path(place).parent if savedir is None and Path(place).is_file() else Path(place)
    with refusing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{file_name(run)}{append or ''}.{format}"
