"""How a reader opens a run's database: whoever else has it open, and without leaving anything behind."""

import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from cockpit.store.backend import Signature, stamp

LOG, JOURNAL = "-wal", "-journal"
TRIES = 3
Answer = TypeVar("Answer")
Question = Callable[[sqlite3.Connection], Answer]


class Access:
    """A short connection for each question, so that nothing is held open or locked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.short = False  #: pages are missing at the end of the file
        self._log = path.with_name(path.name + LOG)
        self._journal = path.with_name(path.name + JOURNAL)
        self._copy: tuple[Signature, Path] | None = None

    def signature(self) -> Signature:
        """Changes whenever something was written."""
        return stamp(self.path), stamp(self._log)

    def ask(self, question: Question[Answer]) -> Answer:
        """Ask a question; it may be asked again when somebody began to write meanwhile."""
        before = self.signature()
        if self._at_rest(before):
            answer: Answer | None = None
            trouble: sqlite3.Error | None = None
            try:
                answer = self._answer(self.path, "immutable=1", question)
            except sqlite3.Error as error:
                trouble = error
            if self.signature() == before:  # nobody wrote: every page was of one state
                if trouble is not None:
                    raise trouble
                return answer  # type: ignore[return-value]
        try:
            return self._answer(self.path, "mode=ro", question)
        except sqlite3.OperationalError as error:
            barred = code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if not barred or not self._log.exists():
                raise
        return self._answer(self._copied(), "mode=ro", question)

    def _at_rest(self, found: Signature) -> bool:
        """Nobody writes: SQLite then needs neither locks nor shared memory, which it would leave in the folder.

        A writer has something in its write-ahead log from its first record to its end.
        """
        file, log = found
        return file is not None and (log is None or log[2] == 0) and not self._journal.exists()  # type: ignore[index]

    def _answer(self, path: Path, option: str, question: Question[Answer]) -> Answer:
        address = f"{path.absolute().as_uri()}?{option}"
        with closing(sqlite3.connect(address, uri=True, timeout=2, check_same_thread=False)) as connection:
            connection.text_factory = bytes  # a damaged text is then the trouble of its row alone
            self.short = False
            try:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.DatabaseError as error:
                if code(error) != sqlite3.SQLITE_CORRUPT:
                    raise
                self.short = True
                connection.execute("PRAGMA writable_schema=ON")  # opens a file that is shorter than it says
            return question(connection)

    def _copied(self) -> Path:
        """A copy, where the write-ahead log of a killed run lies in a folder that cannot be written to."""
        for _ in range(TRIES):
            now = self.signature()
            if self._copy is None or self._copy[0] != now:
                folder = Path(tempfile.mkdtemp(prefix="cockpit-"))
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                for path in (self.path, self._log):
                    shutil.copyfile(path, folder / path.name)
                self._copy = now, folder
            if self.signature() == now:
                break
        assert self._copy is not None
        return self._copy[1] / self.path.name


def code(error: sqlite3.Error) -> int:
    """What kind of error SQLite reports."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
