"""How a reader opens a run's database: whoever else has it open, within bounds, and without leaving anything behind."""

import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from cockpit.core.reading import odd_kind
from cockpit.store.backend import Foreign, Signature, stamp
from cockpit.store.sqlite import attempt, identify

LOG, JOURNAL, SHARED = "-wal", "-journal", "-shm"
TRIES = 3
LONGEST = 2.0  # seconds for a question, and one more for each of
SPEED = 20 << 20  # bytes of the file: a slow disk
LOOK = 20_000  # steps of SQLite's machine between two looks at the clock
LEAST = 1 << 20  # bytes that a value may have in any file; in a larger one as many as the file
COPIED = 1 << 30  # bytes that are copied at most
SAFE = "PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON"
SMALL = "PRAGMA cache_size=-2000"  # KiB, whatever the file says
Answer = TypeVar("Answer")
Question = Callable[[sqlite3.Connection], Answer]
Facts = tuple[int | None, dict[int, tuple[int, float]], bool, int]  # version, attempts, whether closed, last frame


class Late(Exception):
    """A question takes longer than it may."""


class Deadline:
    """Says when it is too late."""

    def __init__(self, size: int) -> None:
        self.seconds = LONGEST + size / SPEED
        self._end = time.monotonic() + self.seconds

    def passed(self) -> bool:
        """Whether it is."""
        return time.monotonic() > self._end

    def check(self) -> None:
        """Raise if it is."""
        if self.passed():
            raise Late


class Access:
    """A short connection for each question, so that nothing is held open or locked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.short = False  #: pages are missing at the end of the file
        self.owned = True  #: somebody may be writing: what lies beside the file is his
        self.aside: str | None = None  #: what lies beside the file and does not belong to it
        self.deadline = Deadline(0)
        self._log, self._journal, self._shared = (path.with_name(path.name + end) for end in (LOG, JOURNAL, SHARED))
        self._copy: tuple[Signature, Path] | None = None
        self._belongs: tuple[Signature, bool] | None = None

    def signature(self) -> Signature:
        """Changes whenever something was written."""
        return stamp(self.path), stamp(self._log)

    def ask(self, question: Question[Answer]) -> Answer:
        """Ask a question; it may be asked again when somebody began to write meanwhile."""
        for path in (self.path, self._log, self._journal, self._shared):
            if (kind := odd_kind(path)) is not None:
                raise Foreign(f"{path.name} is {kind}, not a file")
        before = self.signature()
        self.deadline = Deadline(self._size(before))
        if not self.owned and self._left_over(before):
            return self._answer(self.path, "immutable=1", question)
        if self._at_rest(before):
            answer: Answer | None = None
            trouble: Exception | None = None
            try:
                answer = self._answer(self.path, "immutable=1", question)
            except (sqlite3.Error, Late) as error:
                trouble = error
            if self.signature() == before:  # nobody wrote: every page was of one state
                if trouble is not None:
                    raise trouble
                return answer  # type: ignore[return-value]
        return self._with_log(question)

    def foreign(self) -> str | None:
        """What lies beside the file and does not belong to it, where nobody writes; None if there is nothing."""
        found = self.signature()
        self.deadline = Deadline(self._size(found))
        self._left_over(found)
        return self.aside

    def _with_log(self, question: Question[Answer]) -> Answer:
        """The file with what stands in its write-ahead log."""
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
        return found[0] is not None and _empty(found[1]) and not self._journal.exists()

    @staticmethod
    def _size(found: Signature) -> int:
        return sum(part[2] for part in found if isinstance(part, tuple))

    def _left_over(self, found: Signature) -> bool:
        """Whether a log lies beside the file that is not its own, or older than it: SQLite itself would follow it."""
        self.aside = None
        if found[0] is None:
            return False
        if self._journal.exists():
            self.aside = f"{self._journal.name} does not belong to a run, and is left aside"
        elif not _empty(found[1]):
            if self._belongs is None or self._belongs[0] != found:
                self._belongs = found, self._goes_on()
            if not self._belongs[1]:
                self.aside = f"{self._log.name} belongs to another run or an earlier state, and is left aside"
        return self.aside is not None

    def _goes_on(self) -> bool:
        """Whether the write-ahead log goes on with the run in the file."""
        try:
            version, attempts, closed, last = self._answer(self.path, "immutable=1", self._facts)
        except (sqlite3.Error, Foreign, Late, ValueError):
            return True  # it may hold what the file lacks
        try:
            after = self._with_log(self._facts)
        except (sqlite3.Error, Foreign, Late, ValueError, OSError):
            return version is None
        if version is None:
            return True
        same = after[0] == version and all(after[1].get(key) == one for key, one in attempts.items())
        return same and after[3] >= last and (not closed or len(after[1]) > len(attempts))

    def _facts(self, connection: sqlite3.Connection) -> Facts:
        version = identify(connection, self.path)
        if version is None:
            return None, {}, False, 0
        rows: list[Any] = connection.execute("SELECT * FROM attempts ORDER BY id").fetchmany(10_000)
        found = [one for row in rows if (one := attempt(row)) is not None]
        closed = bool(found) and found[-1].state is not None
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM frames").fetchone()
        return version, {one.id: (one.first_step, one.started) for one in found}, closed, last

    def _answer(self, path: Path, option: str, question: Question[Answer]) -> Answer:
        address = f"{path.absolute().as_uri()}?{option}"
        with closing(sqlite3.connect(address, uri=True, timeout=2, check_same_thread=False)) as connection:
            connection.text_factory = bytes  # a damaged text is then the trouble of its row alone
            connection.setlimit(
                sqlite3.SQLITE_LIMIT_LENGTH, min(max(LEAST, self._size(self.signature())), 1_000_000_000)
            )
            connection.set_progress_handler(self.deadline.passed, LOOK)
            self.short = False
            try:
                return self._opened(connection, question)
            except sqlite3.OperationalError as error:
                if code(error) == sqlite3.SQLITE_INTERRUPT:
                    raise Late from error
                raise
            except UnicodeDecodeError as error:  # Python cannot read what SQLite says about a damaged schema
                raise sqlite3.DatabaseError("the names of its tables are damaged") from error

    def _opened(self, connection: sqlite3.Connection, question: Question[Answer]) -> Answer:
        for statement in SAFE:
            connection.execute(statement)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            if code(error) != sqlite3.SQLITE_CORRUPT:
                raise
            self.short = True
            connection.execute("PRAGMA writable_schema=ON")  # opens a file that is shorter than it says
        connection.execute(SMALL)
        return question(connection)

    def _copied(self) -> Path:
        """A copy, where the write-ahead log of a killed run lies in a folder that cannot be written to."""
        for _ in range(TRIES):
            now = self.signature()
            if self._size(now) > COPIED:
                raise OSError(
                    f"{self.path.name}: the folder cannot be written to, and the run is too large to be copied"
                )
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


def _empty(log: object) -> bool:
    return log is None or (isinstance(log, tuple) and log[2] == 0)


def code(error: sqlite3.Error) -> int:
    """What kind of error SQLite reports."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
