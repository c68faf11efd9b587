"""Every example runs by itself, without a warning, and says something."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.running import ROOT, python

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_runs(path: Path, tmp_path: Path) -> None:
    done = python(path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not done.stderr
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 40


def test_nothing_is_undefined_in_the_custom_quantities(tmp_path: Path) -> None:
    assert "ndefined" not in python(ROOT / "examples" / "custom_quantity.py", cwd=tmp_path).stdout
