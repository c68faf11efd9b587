"""The process behind :func:`cockpit.dashboard.server.start`: says where it serves, ends when its parent does."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from cockpit.core.errors import CockpitError
from cockpit.dashboard.server import address, bind, run

HOST = "127.0.0.1"


def main(folder: str, port: str | None = None) -> None:
    """Serve a folder until the standard input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c is for the training; this process ends with its input
    try:
        bound = bind(HOST, None if port is None else int(port))
    except CockpitError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"url": address(bound, HOST, None)}), flush=True)
    threading.Thread(target=_until_closed, daemon=True).start()
    run(Path(folder), bound)


def _until_closed() -> None:
    sys.stdin.read()
    os._exit(0)  # nothing to save: the page only reads


if __name__ == "__main__":
    main(*sys.argv[1:])
