"""The page's drawing library, Vega, bundled from an installed package: nothing is ever fetched from elsewhere."""

import gzip
import os
import subprocess
import sys
import tempfile
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

from cockpit.core.errors import CockpitError

SNIPPET = "window.vegaEmbed = vegaEmbed;"


class Scripts:
    """The bundle, compressed; made once (1.5 s) in the background, then kept in the user's cache folder."""

    def __init__(self) -> None:
        self._made = threading.Event()
        self._bundle = b""
        self._problem: str | None = None
        threading.Thread(target=self._make, name="cockpit-scripts", daemon=True).start()

    def bundle(self) -> bytes:
        """Wait for the bundle, gzip-compressed JavaScript."""
        self._made.wait()
        if self._problem is not None:
            raise CockpitError(self._problem)
        return self._bundle

    def _make(self) -> None:
        try:
            self._bundle = _cached()
        except Exception as error:  # said to whoever asks for the bundle
            self._problem = str(error) if isinstance(error, CockpitError) else f"{type(error).__name__}: {error}"
        finally:
            self._made.set()


def _cached() -> bytes:
    try:
        import vl_convert
    except ImportError as error:
        raise CockpitError(
            "the page needs vl-convert-python; install it with pip install 'cockpit-deck[ui,plots]'"
        ) from error
    path = cache_folder() / f"vega-{version('vl-convert-python')}-{crc32(SNIPPET.encode()):08x}.js.gz"
    try:
        return _checked(path.read_bytes())
    except (OSError, EOFError, ValueError):
        pass
    packed = gzip.compress(_wrapped(_bundle(vl_convert)), 6, mtime=0)
    _keep(path, packed)
    return packed


def _bundle(vl_convert: Any) -> str:
    """Make the bundle in a process of its own: here it would hold up every other thread for more than a second."""
    code = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle(sys.argv[1]).encode())"
    try:
        done = subprocess.run([sys.executable, "-c", code, SNIPPET], capture_output=True, timeout=60, check=True)
        return done.stdout.decode()
    except (OSError, subprocess.SubprocessError):  # an interpreter that cannot be started again
        made: str = vl_convert.javascript_bundle(SNIPPET)
        return made


def _wrapped(code: str) -> bytes:
    """Keep the bundle's own names from becoming global names of the page."""
    return f"(() => {{{code}\n}})();\n".encode()


def _checked(packed: bytes) -> bytes:
    """Refuse a file that was not written to its end."""
    if not gzip.decompress(packed).endswith(b"})();\n"):
        raise ValueError("not a whole bundle")
    return packed


def _keep(path: Path, content: bytes) -> None:
    """Write all of it or nothing; a cache that cannot be written is done without."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
    except OSError:
        pass


def cache_folder() -> Path:
    """Where this user's caches are, by the habit of the system."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "cockpit"
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "cockpit" / "Cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/cockpit").expanduser()
    return Path("~/.cache/cockpit").expanduser()
