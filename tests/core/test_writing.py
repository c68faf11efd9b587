"""Files that appear complete or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.core.errors import CockpitError
from cockpit.core.writing import Staged, refusing, whole


def test_files_appear_together(tmp_path: Path) -> None:
    with Staged() as files:
        for name in ("a.csv", "b.gif"):
            part = files.part(tmp_path / name)
            assert part.suffix == Path(name).suffix
            part.write_text(name)
        assert not (tmp_path / "a.csv").exists()
    assert files.paths == [tmp_path / "a.csv", tmp_path / "b.gif"]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "a.csv", "b.gif": "b.gif"}


def test_an_error_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")

    def write() -> None:
        with Staged() as files:
            files.part(tmp_path / "a").write_text("half")
            files.part(tmp_path / "b").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


@pytest.mark.parametrize("name", ["folder", "file/below", "missing/below", "x" * 300])
def test_places_that_take_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    out = tmp_path / name
    with (
        pytest.raises(CockpitError, match=r"cannot be written: .*; choose another place"),
        refusing(out),
        whole(out) as part,
    ):
        part.write_text("new")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
