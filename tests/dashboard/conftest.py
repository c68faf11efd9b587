from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.dashboard.runs import EVIL, write

if TYPE_CHECKING:
    from tests.dashboard.client import TestClient


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


@pytest.fixture(scope="module")
def window() -> Iterator[Any]:
    from tests.dashboard.browser import browser  # skips the test where a library is missing

    with browser() as found:
        yield found


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    from tests.dashboard.client import connect  # skips the test where a library is missing

    with connect(folder) as found:
        yield found
