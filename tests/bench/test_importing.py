"""Problems of a user's own, by import path."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.bench.test_origin import OWN

from cockpit.bench import importing
from cockpit.cli import main
from cockpit.core.errors import CockpitError
from cockpit.problems import Problem, get


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the module of a problem that is solved at once."""
    (tmp_path / "hill.py").write_text(OWN.format("A line", 1, 0.9))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COCKPIT_RUNS", raising=False)
    yield tmp_path
    for name in ("hill", "valley"):
        sys.modules.pop(name, None)


def call(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["bench", *arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_on_the_command_line(place: Path) -> None:
    """It is found in the working directory, trained, and has a speed."""
    call("run", "hill:slope", "-o", "SGD", "--lr", "0.1", "--seeds", "2")
    (row,) = json.loads(call("table", "--format", "json").stdout)["rows"]
    assert (row["problem"], row["seeds"]) == ("slope", 2)
    assert 0 < row["speed"] <= 3
    text = (place / "hill.py").read_text()
    (place / "hill.py").write_text(text.replace("target=0.9", "target=0.0"))  # which is no other problem
    sys.modules.pop("hill")
    assert "already there" in call("run", "hill:slope", "-o", "SGD", "--lr", "0.1", "--seeds", "2").stderr
    (row,) = json.loads(call("table", "--format", "json").stdout)["rows"]
    assert row["speed"] == 4.0


def test_beside_a_file(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    beside = tmp_path_factory.mktemp("study")
    (beside / "valley.py").write_text((place / "hill.py").read_text().replace('"slope"', '"beside"'))
    (place / "valley.py").write_text("raise RuntimeError('the working directory comes last')")
    assert importing.problem("valley:slope", [beside]).name == "beside"
    assert importing.load("class", "hill:Splits", [beside]).__name__ == "Splits"
    assert str(beside) not in sys.path


def test_what_is_no_problem(place: Path) -> None:
    assert importing.problem("digits") is get("digits")
    assert isinstance(get("digits"), Problem)
    with pytest.raises(CockpitError, match=r"hill:line is <function line.*; give a cockpit.problems.Problem"):
        importing.problem("hill:line")
    with pytest.raises(CockpitError, match=r"problem is 3; give a cockpit.problems.Problem"):
        importing.problem(3)  # type: ignore[arg-type]
    with pytest.raises(CockpitError, match=r"problem 'hill:slop' cannot be imported: hill .* has no 'slop'"):
        importing.problem("hill:slop")
    with pytest.raises(CockpitError, match="problem 'no_hill:slope' cannot be imported: No module named 'no_hill'"):
        importing.problem("no_hill:slope")
    (place / "valley.py").write_text("1 / 0")
    with pytest.raises(CockpitError, match="'valley:slope' cannot be imported: ZeroDivisionError: division by zero"):
        importing.problem("valley:slope")
    for text, said in (
        ("import no_such_package", "No module named 'no_such_package'; gully needs it, install it"),
        ("raise SystemExit(3)", "SystemExit: 3; mend gully"),
        ("def slope(:", "SyntaxError: .*; mend gully"),
    ):
        (place / "gully.py").write_text(text)
        with pytest.raises(CockpitError, match=f"'gully:slope' cannot be imported: {said}"):
            importing.problem("gully:slope")
    assert "package.module:problem" in call("run", "hill", code=2).stderr
