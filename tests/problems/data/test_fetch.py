"""Files are found, or downloaded and checked; what goes wrong is said with file, folder and address."""

from __future__ import annotations

import hashlib
import io
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place
from cockpit.problems.data.fetch import File, default_place, fetch

CONTENT = bytes(range(256)) * 3000


class Answers(BaseHTTPRequestHandler):
    """Serves CONTENT at /good, half of it at /short, nothing elsewhere."""

    def do_GET(self) -> None:
        if self.path not in ("/good", "/short"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/good" else CONTENT[: len(CONTENT) // 2])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    running = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    thread.join()
    running.server_close()


def test_a_file_that_is_there_is_not_downloaded(tmp_path: Path) -> None:
    (tmp_path / "numbers").mkdir()
    (tmp_path / "numbers" / "b.bin").write_bytes(b"1")
    files = [File("b.bin.gz", "http://nowhere.invalid/b", "md5:0", also=("b.bin",))]
    assert fetch(Place(tmp_path), "numbers", files) == [tmp_path / "numbers" / "b.bin"]


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_download(tmp_path: Path, server: str, kind: str) -> None:
    told: list[tuple[int, int | None]] = []
    checksum = f"{kind}:{hashlib.new(kind, CONTENT).hexdigest()}"
    files = [File("a.bin", f"{server}/good", checksum)]
    (path,) = fetch(Place(tmp_path), "numbers", files, lambda done, total: told.append((done, total)))
    assert path == tmp_path / "numbers" / "a.bin"
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert len(told) > 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_progress(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    fetch(Place(tmp_path), "numbers", [File("a.bin", f"{server}/good")])
    assert "a.bin" in shown.getvalue()
    assert (tmp_path / "numbers" / "a.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_and_names_both(tmp_path: Path, server: str) -> None:
    found = hashlib.md5(CONTENT).hexdigest()
    with pytest.raises(CockpitError, match=f"expected 1234, found {found}"):
        fetch(Place(tmp_path), "numbers", [File("a.bin", f"{server}/good", "md5:1234")])
    assert list((tmp_path / "numbers").iterdir()) == []


@pytest.mark.parametrize(("path", "reason"), [("/short", "of 768000 bytes arrived"), ("/missing", "404")])
def test_a_download_that_fails_leaves_nothing(tmp_path: Path, server: str, path: str, reason: str) -> None:
    with pytest.raises(CockpitError, match=reason) as caught:
        fetch(Place(tmp_path), "numbers", [File("a.bin", server + path)])
    assert list((tmp_path / "numbers").iterdir()) == []
    assert all(said in str(caught.value) for said in ("'numbers'", "a.bin", str(tmp_path / "numbers"), server + path))


def test_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(CockpitError, match=r"put a\.bin in"):  # nobody listens at port 9
        fetch(Place(tmp_path), "numbers", [File("a.bin", "http://127.0.0.1:9/a.bin")])
    files = [File(f"{name}.bin", f"http://127.0.0.1:9/{name}.bin") for name in "abc"]
    (tmp_path / "numbers" / "a.bin").touch()
    with pytest.raises(CockpitError, match=r"put b\.bin, c\.bin in"):  # all that are missing, at once
        fetch(Place(tmp_path), "numbers", files)


def test_without_downloading_all_missing_files_are_named(tmp_path: Path) -> None:
    files = [File("a.bin", "http://one.invalid/a", also=("a.txt",)), File("b.bin", "http://two.invalid/b")]
    with pytest.raises(CockpitError) as caught:
        fetch(Place(tmp_path, download=False), "numbers", files)
    parts = ("'numbers'", "switched off", "a.bin or a.txt, b.bin", str(tmp_path / "numbers"), *(f.url for f in files))
    assert all(part in str(caught.value) for part in parts)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_text("a file, not a folder")
    with pytest.raises(CockpitError, match="name another folder"):
        fetch(Place(tmp_path), "numbers", [File("a.bin", "http://127.0.0.1:9/a.bin")])


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COCKPIT_DATA", str(tmp_path))
    assert default_place() == Place(tmp_path, download=True)
    monkeypatch.delenv("COCKPIT_DATA")
    assert default_place().folder == Path.home() / ".cache" / "cockpit" / "data"
