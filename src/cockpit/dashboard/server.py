"""Serve the page: here, or in a process of its own beside a training."""

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import webbrowser
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cockpit.core.errors import CockpitError
from cockpit.dashboard.guard import LOCAL

if TYPE_CHECKING:
    import uvicorn

PORT = 6180
TRIES = 50  # ports that are tried after the first


def serve(
    folder: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    open_browser: bool = False,
) -> None:
    """Serve the runs below a folder until interrupted; print where.

    Args:
        folder: Where the runs are; may be empty, may not exist yet.
        host: Any other than this machine's own needs a token; one is made up if none is given.
        port: The next free one from 6180 on if None.
        token: What a reader must know.
        open_browser: Show the page in the user's browser.
    """
    if token is not None and not token.strip():
        raise CockpitError("token is empty; give one that others cannot guess, or leave --token out")
    if folder.exists() and not folder.is_dir():
        raise CockpitError(f"{folder} is a file; give the folder that holds the runs")
    bound = bind(host, port)
    if token is None and not _only_here(host):
        token = secrets.token_urlsafe(18)
    url = address(bound, host, token)
    if port is None and bound.getsockname()[1] != PORT:
        print(f"port {PORT} is taken; using {bound.getsockname()[1]}")
    print(f"cockpit shows {folder} at {url}  (ctrl-c to stop)", flush=True)
    for line in _advice(bound, host):
        print(line, flush=True)
    if not folder.exists():
        print(
            f"{folder} does not exist yet; runs appear on the page as soon as a training writes them there", flush=True
        )
    if open_browser:
        show(url)
    run(folder, bound, token)


def _advice(bound: socket.socket, host: str) -> list[str]:
    """How to read the page from elsewhere: through a tunnel; what plain HTTP lets others see."""
    port = bound.getsockname()[1]
    tunnel = f"ssh -L {port}:localhost:{port} {socket.gethostname()}"
    if not _only_here(host):
        return [f"this is plain HTTP: others on the network can read along; safer without --host, through {tunnel}"]
    return [f"from another machine: {tunnel}  then open http://localhost:{port}/ there"]


def show(url: str) -> None:
    """Open a page in the user's browser, if there is a screen: never one in the terminal."""
    screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen and not os.environ.get("SSH_CONNECTION"):
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def bind(host: str, port: int | None) -> socket.socket:
    """Listen on this port, or on the next free one where none is asked for."""
    wanted = [port] if port is not None else [*range(PORT, PORT + TRIES), 0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem: OSError | None = None
    for number in wanted:
        bound = socket.socket(family, socket.SOCK_STREAM)
        if sys.platform != "win32":  # there it would let two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, number))
            bound.listen(128)
            return bound
        except OSError as error:
            bound.close()
            problem = error
    raise CockpitError(f"cannot listen on {host}, port {wanted[0]}: {problem}; choose another with --host or --port")


def address(bound: socket.socket, host: str, token: str | None) -> str:
    """Where a browser finds the page."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{bound.getsockname()[1]}/" + (f"?token={quote(token, safe='')}" if token else "")


def run(folder: Path, bound: socket.socket, token: str | None = None) -> None:
    """Serve on a socket until interrupted."""
    server = _server(folder, token)
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:
        pass
    finally:
        bound.close()


def _server(folder: Path, token: str | None) -> "uvicorn.Server":
    try:
        import uvicorn
    except ImportError as error:
        raise CockpitError("the page needs uvicorn; install it with pip install 'cockpit-deck[ui]'") from error
    from cockpit.dashboard.app import create_app

    app = create_app(folder, token)

    class Server(uvicorn.Server):
        """Ends the event streams first: an open page must not keep the server from stopping."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.close()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="off", server_header=False, timeout_graceful_shutdown=2
    )
    return Server(config)


def _only_here(host: str) -> bool:
    return host in LOCAL or host == "::1"


class Server:
    """The page in a process of its own; it ends with this one."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self.url = url

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.stop()


def start(folder: Path, port: int | None = None) -> Server:
    """Serve in the background, for this machine only; a training beside it keeps its interpreter to itself."""
    command = [sys.executable, "-m", "cockpit.dashboard", str(folder), *([] if port is None else [str(port)])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    said: dict[str, str] = json.loads(line) if line.startswith("{") else {"error": "the page did not start; see above"}
    server = Server(process, said.get("url", ""))
    if "error" in said:
        server.stop()
        raise CockpitError(said["error"])
    return server
