"""The deck in notebooks: a picture that needs no network, and a display that follows training."""

import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from html import escape
from typing import Any

from cockpit.core.source import Source
from cockpit.plots.artist import Artist
from cockpit.plots.deck import deck
from cockpit.plots.reading import read
from cockpit.plots.show import line
from cockpit.plots.summary import UNFINISHED, summary
from cockpit.plots.text import short, undefined

SECONDS = 5.0  # at least, from one drawing to the next
SHARE = 0.05  # of the time that drawing may take
COLOURS = {"running": "#009E73", "finished": "#0072B2", "crashed": "#D55E00", "stale": "#E69F00"}
BOX = "font-family:system-ui,sans-serif;color:#222;background:#fff;padding:8px;border:1px solid #ddd;border-radius:4px"


def html(source: Source) -> str:
    """The run as one piece of HTML: a heading and the deck, or a table where no picture can be made."""
    facts = summary(source)
    try:
        body = _picture(source) if facts["step"] is not None else "<p>No step has been tracked yet.</p>"
    except Exception as error:  # the library that draws is missing, or fails: numbers are better than nothing
        said = escape(str(error).partition("\n")[0])
        body = f"{_table(source)}<p style='color:#666'>No picture: {said}</p>"
    return f"<div style='{BOX}'>{_heading(facts)}{body}</div>"


def html_of(source: Any) -> str:
    """The same of anything that can be read, for the process that draws."""
    return html(read(source))


def _heading(facts: dict[str, Any]) -> str:
    state = str(facts["state"] or "in memory")
    lamp = f"<b style='color:{COLOURS.get(state, '#222')}'>{escape(state)}</b>"
    said = line(facts).removeprefix(f"{facts['name']}, {facts['state']}, ")
    return f"<div><b>{escape(facts['name'])}</b> &nbsp; {lamp} &nbsp; {escape(said)}</div>"


def _picture(source: Source) -> str:
    from cockpit.plots.figure import figure

    data = b64encode(figure([source], "png", scale=2)).decode("ascii")
    title = escape(f"flight deck of {source.name}", quote=True)
    return f"<img alt='{title}' style='max-width:100%;background:#fff' src='data:image/png;base64,{data}'>"


def _table(source: Source) -> str:
    groups = deck(source)
    rows = "".join(
        f"<tr><td>{escape(row.name)}</td><td>{row.reading}</td><td style='text-align:right'>{_last(row.values)}</td></tr>"
        for group in groups
        for row in group.rows
    )
    notes = "".join(f"<div>{escape(note)}</div>" for note in undefined(groups))
    return f"<table><tr><th>quantity</th><th></th><th>last</th></tr>{rows}</table>{notes}"


def _last(values: list[float]) -> str:
    return short(values[-1]) if values else "undefined"


def inside() -> bool:
    """Whether this is a notebook, where pictures can be shown."""
    shell = sys.modules.get("IPython")
    active = shell.get_ipython() if shell is not None else None
    return active is not None and hasattr(active, "kernel")


class Display:
    """One output cell that is drawn anew as a run goes on; training does not wait for it."""

    def __init__(self, make: Callable[[], Source], seconds: float = SECONDS) -> None:
        """Show the run now, and start to follow it.

        Args:
            make: Gives the run as it is now; called on the display's own thread.
            seconds: From one drawing to the next; more where drawing takes longer than 5 % of that.
        """
        from IPython.display import HTML, display

        self._make, self._seconds, self._wrap = make, seconds, HTML
        self._artist = Artist()
        self._stop = threading.Event()
        self._handle: Any = display(HTML("<i>drawing ...</i>"), display_id=True)
        self._thread = threading.Thread(target=self._follow, name="cockpit display", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Draw the last state and end; closing twice is fine."""
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._stop.is_set():
                begin = time.monotonic()
                self._draw()
                self._stop.wait(max(self._seconds, (time.monotonic() - begin) / SHARE))
            self._draw()
        finally:
            self._artist.close()

    def _draw(self) -> None:
        try:
            run = self._make()
            path = getattr(run, "path", None)  # what lies on disk is read by the other process itself
            drawn = self._artist.call(html_of, run if path is None else str(path))
        except Exception as error:  # a picture must never end a training run
            drawn = f"<i>could not draw: {escape(str(error))}</i>"
        self._handle.update(self._wrap(drawn))


def show(run: Any, keep_on: bool) -> None:
    """Show a run in the cell; ``keep_on``: until it ends, in the background."""
    from IPython.display import HTML, display

    if keep_on and run.state in UNFINISHED:
        Display(lambda: _refreshed(run))
    else:
        display(HTML(html(run)))


def _refreshed(run: Any) -> Source:
    run.refresh()
    return run  # type: ignore[no-any-return]
