"""Read every folder below one as the list, the terminal and the page do; print what it took and what escaped.

A process of its own, so that a reading that never ends, or eats the memory, fails one test and no more.
"""

from __future__ import annotations

import json
import re
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cockpit import CockpitError, open_run
from cockpit.dashboard.api import ANSWERS
from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.query import Query
from cockpit.plots.summary import summary
from cockpit.store import StoredRun, runs

SOUND = "~sound"  # the folder that nobody spoiled
DRAWN = re.compile(r"~|odd|layout \d*[02468]$|frame|inf|.*number")  # folders whose panels are drawn, too
DONE = (CockpitError, LookupError)  # what a reader may say; the page answers both in a sentence


def peak() -> int:
    """Most memory since the last call, in MiB; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        Path("/proc/self/clear_refs").write_text("5")  # from here on it is counted anew
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))
    except OSError:
        return 0


class Watched:
    """Asks, and keeps how long the slowest answer took: of the processor, and on a clock that others keep waiting."""

    def __init__(self) -> None:
        self.slowest = self.longest = 0.0

    def ask(self, question: Callable[[], Any]) -> Any:
        begin, clock = time.process_time(), time.monotonic()
        try:
            return question()
        except DONE as error:
            return f"refused: {error}"
        finally:
            self.slowest = max(self.slowest, time.process_time() - begin)
            self.longest = max(self.longest, time.monotonic() - clock)


def everything(folder: Path, watched: Watched) -> str | None:
    """Look at all there is, and say what is wrong with it."""
    ask = watched.ask
    run = ask(lambda: StoredRun(folder))
    for name in run.kinds:
        ask(
            lambda name=name: (run.scalar(name), run.parts(name), run.reasons(name), run.detail(name, "standard_error"))
        )
        for step in ask(lambda name=name: run.counted(name)).tolist()[:2]:
            ask(lambda name=name, step=step: run.samples(name, step))
            ask(lambda name=name, step=step: run.histogram(name, step).parts)
    ask(lambda: [None for _ in run.records()])
    ask(lambda: summary(run))
    opened = ask(lambda: open_run(folder))
    if not isinstance(opened, str):
        ask(lambda: (repr(opened), opened.table(), opened.explain(), opened.refresh()))
    said: str | None = ask(lambda: run.damaged)
    return said


def page(root: Path, ident: str, watched: Watched) -> None:
    fleet = Fleet(root)
    for name in ("runs", "details", "compare", "bench", *(["deck", "layers"] if DRAWN.match(ident) else [])):
        watched.ask(lambda name=name: ANSWERS[name](fleet, Query(runs=(ident,))))


def main(root: Path, with_page: bool) -> None:
    everything(root / SOUND, Watched()), page(root, SOUND, Watched())  # what is loaded and cached the first time
    libraries = peak()
    for folder in sorted(root.iterdir()):
        watched, escaped, said, listed = Watched(), None, None, None
        try:
            listed = watched.ask(lambda folder=folder: [(info.state, info.reason) for info in runs(folder)])
            said = everything(folder, watched)
            if with_page:
                page(folder.parent, folder.name, watched)
        except BaseException:
            escaped = traceback.format_exc()[-1500:]
        facts = {
            "name": folder.name,
            "seconds": watched.slowest,
            "clock": watched.longest,
            "said": said,
            "escaped": escaped,
        }
        print(json.dumps({**facts, "memory": peak() - libraries, "listed": listed and listed[0]}), flush=True)
    assert len(runs(root)) == len(list(root.iterdir())), "every folder is in the list of all"


if __name__ == "__main__":
    main(Path(sys.argv[1]), len(sys.argv) > 2)
