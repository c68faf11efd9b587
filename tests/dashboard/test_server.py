from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

import pytest
from click.testing import CliRunner

from cockpit.cli import main
from cockpit.core.errors import CockpitError
from cockpit.dashboard import server
from cockpit.dashboard.server import address, bind, show, start

for library in ("starlette", "uvicorn"):
    pytest.importorskip(library, reason=f"the page needs {library}: pip install 'cockpit-deck[ui]'")

SERVE = "from cockpit.dashboard.server import serve; from pathlib import Path; serve(Path('.'), {arguments})"


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
        return content


def serve(folder: Path, arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SERVE.format(arguments=arguments)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def test_the_next_free_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with bind("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        monkeypatch.setattr(server, "PORT", taken)
        with bind("127.0.0.1", None) as second:
            assert second.getsockname()[1] != taken
        with pytest.raises(CockpitError, match="--port"):
            bind("127.0.0.1", taken)


def test_the_address_holds_the_token() -> None:
    with bind("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        assert address(bound, "127.0.0.1", None) == f"http://127.0.0.1:{port}/"
        assert address(bound, "0.0.0.0", "abc") == f"http://{socket.gethostname()}:{port}/?token=abc"
        assert address(bound, "::1", None) == f"http://[::1]:{port}/"


def test_any_character_of_a_token_fits_into_the_address() -> None:
    with bind("127.0.0.1", 0) as bound:
        assert address(bound, "127.0.0.1", "a b&c#d").endswith("/?token=a%20b%26c%23d")


@pytest.mark.parametrize("token", ["", "  "])
def test_an_empty_token_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(CockpitError, match="token is empty"):
        server.serve(tmp_path, port=0, token=token)


def test_a_file_is_no_folder_of_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CockpitError, match="is a file"):
        server.serve(tmp_path / "file", port=0)


def test_a_folder_that_does_not_exist_yet_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "run", lambda folder, bound, token: bound.close())
    server.serve(tmp_path / "later", port=0)
    assert "later does not exist yet" in capsys.readouterr().out
    server.serve(tmp_path, port=0)
    assert "does not exist" not in capsys.readouterr().out


TUNNEL = "from another machine: ssh -L "


@pytest.mark.parametrize(("host", "said"), [("127.0.0.1", TUNNEL), ("localhost", TUNNEL), ("0.0.0.0", "plain HTTP")])
def test_how_to_read_it_from_elsewhere(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    said: str,
) -> None:
    monkeypatch.setattr(server, "run", lambda folder, bound, token: bound.close())
    server.serve(tmp_path, host, port=0)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 1
    assert said in lines[0]


def test_a_token_by_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str | None] = []
    monkeypatch.setattr(server, "serve", lambda folder, host, port, token, browser: found.append(token))
    for given in ([], ["--token"], ["--token=mine"], ["--token", "mine"]):
        assert CliRunner().invoke(main, ["ui", str(tmp_path), *given]).exit_code == 0
    assert found[0] is None
    assert len(found[1] or "") > 20
    assert found[2:] == ["mine", "mine"]
    done = CliRunner().invoke(main, ["ui", "--token", str(tmp_path)])
    assert (done.exit_code, "this is a folder" in done.output) == (2, True)


def test_a_server_beside_a_training(folder: Path) -> None:
    with start(folder, 0) as running:
        assert b"<title>cockpit</title>" in read(running.url)
        assert b'"first"' in read(running.url + "api/runs")
    with pytest.raises(OSError, match="refused"):
        read(running.url)


def test_it_ends_with_its_parent(folder: Path) -> None:
    code = "from cockpit.dashboard.server import start; from pathlib import Path; import os\n"
    code += "print(start(Path('.'), 0).url, flush=True); os._exit(1)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True, timeout=20)
    url, end = done.stdout.strip(), time.monotonic() + 10
    while time.monotonic() < end:
        try:
            read(url)
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail("the server outlived the process that started it")


def test_a_port_in_use_is_told() -> None:
    with bind("127.0.0.1", 0) as bound, pytest.raises(CockpitError, match="cannot listen"):
        start(Path("."), bound.getsockname()[1])


def test_ctrl_c_ends_it_quietly_although_a_page_is_open(folder: Path) -> None:
    process = serve(folder, "port=0")
    assert process.stdout is not None
    line = process.stdout.readline()
    url = re.findall(r"http://\S+", line)[0]
    with urllib.request.urlopen(url + "api/events", timeout=10) as stream:
        assert stream.readline().startswith(b"retry")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) in (0, -signal.SIGINT)
    process.stdout.close()


@pytest.mark.skipif(os.name == "nt", reason="binds all addresses of the machine")
def test_beyond_this_machine_a_token_is_made_up(folder: Path) -> None:
    process = serve(folder, "host='0.0.0.0', port=0")
    assert process.stdout is not None
    try:
        port, token = re.findall(r":(\d+)/\?token=(\S{20,})", process.stdout.readline())[0]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            read(f"http://127.0.0.1:{port}/")
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"http://127.0.0.1:{port}/?token={token}", timeout=10) as answer:
            assert b"cockpit" in answer.read()
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def test_it_starts_fast_and_without_torch(folder: Path) -> None:
    begin = time.perf_counter()
    with start(folder, 0) as running:
        read(running.url)
        took = time.perf_counter() - begin
    assert took < 1.5 * 4, f"{took:.2f} s"  # measured 0.5 s; a busy machine may need longer
    code = "import sys, cockpit.dashboard.app, cockpit.dashboard.__main__; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("environment", "opened"), [({"DISPLAY": ":0"}, True), ({}, False)])
def test_a_browser_is_opened_only_where_there_is_a_screen(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], opened: bool
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    asked: list[str] = []
    done = threading.Event()
    monkeypatch.setattr(webbrowser, "open", lambda url: (asked.append(url), done.set()))
    show("http://127.0.0.1:1/")
    assert done.wait(2 if opened else 0.1) == opened
    assert bool(asked) == opened
