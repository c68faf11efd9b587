"""Requests to the page without a network, where starlette and httpx are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the page needs starlette: pip install 'cockpit-deck[ui]'")
pytest.importorskip("httpx", reason="requests to the page are made with httpx: pip install httpx")

from starlette.testclient import TestClient

from cockpit.dashboard.app import create_app

__all__ = ["TestClient", "connect"]


def connect(folder: Path, token: str | None = None, host: str = "127.0.0.1:6180") -> TestClient:
    """A client of the page over these runs; it does not follow redirects."""
    return TestClient(create_app(folder, token), base_url=f"http://{host}", follow_redirects=False)
