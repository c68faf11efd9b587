"""A page in a real Chromium, where there is one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("COCKPIT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
]

for library in ("starlette", "uvicorn"):
    pytest.importorskip(library, reason=f"the page needs {library}: pip install 'cockpit-deck[ui]'")
playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright: pip install playwright")
LEFT_OUT = "browser tests are left out: no Chromium found; install it, or set COCKPIT_CHROMIUM to its path"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=LEFT_OUT)


@contextmanager
def browser() -> Iterator[Any]:
    """A Chromium without a window."""
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield found
        finally:
            found.close()


class Tab:
    """A page and what went wrong on it."""

    def __init__(self, window: Any, url: str, **options: Any) -> None:
        self.context = window.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        self.page = self.context.new_page()
        self.url = url
        self.errors: list[str] = []
        self.asked: set[str] = set()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.context.route("**/*", self._asks)

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _asks(self, route: Any) -> None:
        self.asked.add("/".join(route.request.url.split("/")[:3]) + "/")
        route.continue_()

    def open(self, view: str = "") -> Tab:
        """Open a view and wait until its charts are drawn."""
        self.page.goto(f"{self.url}#{view}")
        return self

    def until(self, script: str, timeout: float = 20.0) -> Any:
        """Wait for a JavaScript expression; the page's own rules forbid to evaluate text inside it."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            found = self.page.evaluate(script)
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"not within {timeout} s: {script}; errors: {self.errors}")

    def drawn(self, page: str = "deck", count: int = 1) -> None:
        """Wait until every card in sight has a picture or says why not."""
        cards = f"[...document.querySelectorAll('#{page} .card')]"
        here = f"{cards}.filter((card) => card.getBoundingClientRect().top < innerHeight)"
        done = "(card) => card.querySelector('canvas') || !card.querySelector('.empty').hidden"
        self.until(f"{cards}.length >= {count} && {here}.every({done})")

    def close(self) -> None:
        """Nothing went wrong, and nobody else was asked for anything."""
        self.context.close()
        assert self.errors == [], self.errors
        assert self.asked == {self.url}
