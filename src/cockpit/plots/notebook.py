"""The deck in notebooks: a picture that needs no network, and a display that follows training."""

import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from html import escape
from importlib import import_module
from io import BytesIO
from typing import Any

from cockpit.core.finite import broken
from cockpit.core.source import Source, Values
from cockpit.panels import View
from cockpit.panels.theme import ALARM
from cockpit.plots.artist import Artist
from cockpit.plots.deck import deck
from cockpit.plots.reading import read
from cockpit.plots.show import told
from cockpit.plots.summary import UNFINISHED, summary
from cockpit.plots.text import short, undefined

SCALE = 1.5  # pixels of the picture for each point
COLOURS_KEPT = 128  # of a picture
SECONDS = 5.0  # at least, from one drawing to the next
SHARE = 0.05  # of the time that drawing may take
COLOURS = {"running": "#009E73", "finished": "#0072B2", "crashed": "#D55E00", "stale": "#E69F00", "ended": "#E69F00"}
BOX = "font-family:system-ui,sans-serif;color:#222;background:#fff;padding:8px;border:1px solid #ddd;border-radius:4px"


def html(source: Source, title: str | None = None, view: View | None = None) -> str:
    """The run as one piece of HTML: a heading and the deck, or a table where no picture can be made."""
    facts = summary(source)
    try:
        body = _picture(source, view) if facts["step"] is not None else "<p>No step has been tracked yet.</p>"
    except Exception as error:  # the library that draws is missing, or fails: numbers are better than nothing
        said = escape(str(error).partition("\n")[0])
        body = f"{_table(source)}<p style='color:#666'>No picture: {said}</p>"
    return f"<div style='{BOX}'>{_heading(source, facts, title)}{body}</div>"


def html_of(source: Any) -> str:
    """The same of anything that can be read, for the process that draws."""
    return html(read(source))


def _heading(source: Source, facts: dict[str, Any], title: str | None) -> str:
    state = facts["state"] or ""
    lamp = f" &nbsp; <b style='color:{COLOURS.get(state, '#222')}'>{escape(state)}</b>" if state else ""
    if (end := broken(source)) is not None:
        lamp += f" &nbsp; <b style='color:{ALARM}'>{end.word} since step {end.broken:,}</b>"
    return f"<div><b>{escape(title or facts['name'])}</b>{lamp} &nbsp; {escape(', '.join(told(facts)))}</div>"


def _picture(source: Source, view: View | None) -> str:
    from cockpit.plots.figure import figure

    drawn = figure([source], "png", view or View(band=True), title="", scale=SCALE)
    data = b64encode(_light(drawn)).decode("ascii")
    about = escape(f"flight deck of {source.name}", quote=True)
    return f"<img alt='{about}' style='max-width:100%;background:#fff' src='data:image/png;base64,{data}'>"


def _light(picture: bytes) -> bytes:
    """The same picture in fewer colours, a tenth of its size: a notebook keeps every one that it has shown."""
    try:
        from PIL import Image
    except ImportError:  # it comes with cockpit-deck[plots]
        return picture
    made = BytesIO()
    few = Image.open(BytesIO(picture)).convert("RGB").quantize(COLOURS_KEPT, dither=Image.Dither.NONE)
    few.save(made, "png", optimize=True)
    return made.getvalue()


def _table(source: Source) -> str:
    groups = deck(source)
    cells = ((escape(row.name), row.reading, _last(row.values)) for group in groups for row in group.rows)
    rows = "".join(f"<tr><td>{name}</td><td>{reading}</td><td>{last}</td></tr>" for name, reading, last in cells)
    notes = "".join(f"<div>{escape(note)}</div>" for note in undefined(groups))
    return f"<table><tr><th>quantity</th><th></th><th>last</th></tr>{rows}</table>{notes}"


def _last(values: Values) -> str:
    return short(float(values[-1])) if len(values) else "undefined"


def inside() -> bool:
    """Whether this is a notebook, where pictures can be shown."""
    shell = sys.modules.get("IPython")
    active = shell.get_ipython() if shell is not None else None
    return active is not None and hasattr(active, "kernel")


class Display:
    """One output cell that is drawn anew as a run goes on; training does not wait for it."""

    def __init__(self, make: Callable[[], Source], seconds: float = SECONDS) -> None:
        """Show the run now, and follow it until it ends or the display is closed.

        Args:
            make: Gives the run as it is now; called on the display's own thread.
            seconds: From one look to the next; drawn less often where it would take more than 5% of the time.
        """
        self._make, self._seconds, self._cell = make, seconds, cell()
        self._artist = Artist()
        self._stop = threading.Event()
        self._drawn: tuple[Source, Any] | None = None  # the run, and its version
        self._handle: Any = self._cell.display(self._cell.HTML("<i>drawing ...</i>"), display_id=True)
        self._thread = threading.Thread(target=self._follow, name="cockpit display", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Draw the last state and end; closing twice is fine."""
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        due = time.monotonic()
        try:
            self._artist.start()
            ended = False
            while not ended:
                ended = self._stop.is_set()
                begin = time.monotonic()
                ended |= self._look(draw=begin >= due)
                if begin >= due:
                    due = begin + (time.monotonic() - begin) / SHARE
                self._stop.wait(0 if ended else self._seconds)
        finally:
            self._artist.close()

    def _look(self, draw: bool) -> bool:
        """Draw what is new, if it is time to or the run has ended; whether it has."""
        try:
            run = self._make()
            ended = self._stop.is_set() or getattr(run, "state", "running") not in UNFINISHED
            version = getattr(run, "version", None)
            if (draw or ended) and (version is None or self._drawn != (run, version)):
                path = getattr(run, "path", None)  # what lies on disk is read by the other process itself
                self._show(self._artist.call(html_of, run if path is None else str(path)))
                self._drawn = run, version
            return ended
        except Exception as error:  # a picture must never end a training run
            self._show(f"<i>could not draw: {escape(str(error))}</i>")
            return False

    def _show(self, drawn: str) -> None:
        self._handle.update(self._cell.HTML(drawn))


def show(run: Any, keep_on: bool) -> None:
    """Show a run in the cell; ``keep_on``: until it ends, in the background."""
    if keep_on and run.state in UNFINISHED:
        Display(lambda: _refreshed(run))
    else:
        put(html(run))


def put(made: str) -> None:
    """Show HTML in the cell that is running."""
    cell().display(cell().HTML(made))


def cell() -> Any:
    """What a notebook shows things with."""
    return import_module("IPython.display")


def _refreshed(run: Any) -> Source:
    run.refresh()
    return run  # type: ignore[no-any-return]
