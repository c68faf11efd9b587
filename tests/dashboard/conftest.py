from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.dashboard.runs import write

pytest.importorskip("starlette", reason="the page needs starlette: pip install 'cockpit-deck[ui]'")
pytest.importorskip("httpx", reason="requests to the page are made with httpx: pip install httpx")

from starlette.testclient import TestClient

from cockpit.dashboard.app import create_app

EVIL = "<script>document.title='owned'</script>"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs: a good one, another one in a folder below, one that crashed and has a bad name, an empty one."""
    root = tmp_path_factory.mktemp("runs")
    model = {"class": "Sequential", "elements": 10, "layers": []}
    write(root / "first", name="first", steps=range(0, 80, 2), model=model, coverage="covers everything")
    write(root / "sweep" / "second", name="second", model={**model, "elements": 20})
    write(root / "bad", name=EVIL, state="crashed", reason="RuntimeError: out of <b>memory</b>")
    write(root / "empty", name="empty", steps=())
    return root


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(create_app(folder), base_url="http://127.0.0.1:6180") as found:
        yield found
