"""A console that shows what its stream can: other characters become question marks, not errors."""

import sys
from typing import Any, TextIO, cast

from rich.console import Console


def console() -> Console:
    """The console of this process's output, wherever it goes now."""
    return Console(file=cast(TextIO, _Lenient(sys.stdout)) if sys.stdout is not None else None)


class _Lenient:
    """A stream that writes what its encoding has no character for as ``?``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return self._stream.write(text.encode(encoding, "replace").decode(encoding))
