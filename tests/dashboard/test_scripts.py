from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from cockpit.core.errors import CockpitError
from cockpit.dashboard.scripts import Scripts, cache_folder

pytest.importorskip("vl_convert", reason="the drawing library comes from vl-convert-python")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cockpit"
    return tmp_path / "cockpit"


def test_the_bundle_is_made_once_and_mended(cache: Path) -> None:
    made = Scripts().bundle()
    code = gzip.decompress(made)
    assert code.startswith(b"(() => {")
    assert b"vegaEmbed" in code
    (file,) = cache.iterdir()
    file.write_bytes(made[:1000])  # a disk that was full
    assert Scripts().bundle() == made
    assert file.read_bytes() == made
    file.write_bytes(gzip.compress(b"(() => {kept})();\n"))
    assert gzip.decompress(Scripts().bundle()) == b"(() => {kept})();\n"


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert gzip.decompress(Scripts().bundle()).endswith(b"})();\n")


def test_a_missing_library_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(CockpitError, match=r"cockpit-deck\[ui,plots\]"):
        Scripts().bundle()
