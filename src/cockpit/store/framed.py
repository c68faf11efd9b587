"""The log as one file of framed records, each with its checksum: for network file systems.

A frame is its length, its checksum, a letter and the payload. Only one process ever appends. Readers wait for what
is unfinished at the end: it is being written, or it was left by a kill and is cut off by the next writer.
"""

import errno
import json
import os
import re
import struct
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from cockpit.core import reading
from cockpit.store.backend import Foreign, Head, Kept, Signature, stamp
from cockpit.store.item import Attempt, Entry, Frame, Item, Layout, Meta, News

NAME = "run.frames"
MAGIC = b"cockpit\x01"
HEAD = struct.Struct("<IIc")  # length of the payload, checksum of letter and payload, letter
FRAME = struct.Struct("<qqqdII")  # attempt, step, layout, time, length of numbers, of notes
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
SEARCHED = 1 << 24  # bytes searched at a time for the next undamaged frame
PATIENCE = 2.0  # seconds until bytes in the middle are held to be damaged: a file server may show later ones first
LONGEST = 2.0  # seconds that a search may take
HEADED = 64 << 20  # bytes of a frame without its tail, and of anything else
CHUNK = 1 << 20  # bytes of a tail that are in memory while it is checked
LETTER = re.compile(rb"[FLAM]")


class FramedLog:
    """The writing side."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._file = os.open(self.path, FLAGS, 0o666)
        try:
            self.kept = self._prepare()
        except BaseException:
            os.close(self._file)
            raise

    def _prepare(self) -> Kept:
        reader = FramedReader(self.path.parent)
        news = reader.news()
        if news.damage is not None or news.gap is not None:
            raise Foreign(f"{self.path} cannot be continued: {news.damage or news.gap}")
        self._end = reader.end
        os.ftruncate(self._file, self._end)
        if self._end == 0:
            self._append(MAGIC)
        attempts = {attempt.id: attempt for attempt in news.attempts}
        layouts = max((layout.id for layout in news.layouts), default=0)
        last = max((entry.step for entry in news.entries), default=None)
        return Kept(list(attempts.values()), layouts + 1, last)

    def write(self, items: Sequence[Item]) -> None:
        """Write all items or none."""
        self._append(b"".join(part for item in items for part in _framed(*_payload(item))))

    def _append(self, data: bytes) -> None:
        done = 0
        try:
            os.lseek(self._file, self._end, os.SEEK_SET)
            while done < len(data):
                done += os.write(self._file, data[done:] if done else data)
            self._sync()
        except BaseException:
            os.ftruncate(self._file, self._end)
            raise
        self._end += done

    def _sync(self) -> None:
        """Only then other machines see it."""
        try:
            os.fsync(self._file)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):  # some file systems know no such thing
                raise

    def close(self) -> None:
        """Let go of the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def forget(self) -> None:
        """In a forked child: never touch the file again."""
        self.close()


def _framed(letter: bytes, payload: bytes) -> tuple[bytes, bytes]:
    return HEAD.pack(len(payload), zlib.crc32(payload, zlib.crc32(letter)), letter), payload


def _payload(item: Item) -> tuple[bytes, bytes]:
    match item:
        case Frame():
            notes = (item.notes or "").encode()
            sizes = len(item.numbers), len(notes)
            head = FRAME.pack(item.attempt, item.step, item.layout, item.time, *sizes)
            return b"F", head + item.numbers + notes + (item.tail or b"")
        case Layout():
            return b"L", json.dumps(asdict(item)).encode()
        case Attempt():
            return b"A", json.dumps(asdict(item)).encode()
        case Meta():
            return b"M", json.dumps(item.texts).encode()


class FramedReader:
    """The reading side; the place of a frame is where its payload begins."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.end = 0  # of what was read
        self._gaps: list[tuple[int, int]] = []  # begin and number of damaged bytes
        self._late = 0.0  # when a search has taken too long
        self._doubt = -1, 0.0  # where it does not go on, and since when

    def signature(self) -> Signature:
        """Changes whenever something was written."""
        return (stamp(self.path),)

    def news(self, growing: bool = False) -> News:
        """Read what came since the last call."""
        news, self._late = News(), time.monotonic() + LONGEST
        try:
            with open(reading.opened(self.path), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if self.end == 0 and not self._begin(file, news):
                    return news
                while self.end < size:
                    file.seek(self.end)
                    while self._next(file, size, news):
                        pass
                    if not self._skip(file, size, growing, news):
                        break
        except reading.Refused as error:
            news.damage = str(error)
        except OSError as error:
            news.damage = f"{NAME}: {error.strerror or error}"
        if self._gaps:
            count, first = sum(length for _, length in self._gaps), self._gaps[0][0]
            news.gap = f"{NAME}: {count} bytes from byte {first} on are damaged; all others were read"
        return news

    def _begin(self, file: BinaryIO, news: News) -> bool:
        magic = file.read(len(MAGIC))
        if magic == MAGIC:
            self.end = len(MAGIC)
        elif magic[:7] == MAGIC[:7]:
            news.damage = f"{NAME} has another format than this version of cockpit knows: update cockpit-deck"
        elif not MAGIC.startswith(magic):
            news.damage = f"{NAME} is a file of another program: this is not a cockpit run"
        return self.end > 0

    def _next(self, file: BinaryIO, size: int, news: News) -> bool:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return False
        length, crc, letter = HEAD.unpack(head)
        begin, end = self.end + HEAD.size, self.end + HEAD.size + length
        if end > size or letter not in b"FLAM":
            return False
        payload = _payload_at(file, length, crc, letter)
        if payload is None or not _add(news, letter, payload, begin):
            return False
        self.end = end
        return True

    def _skip(self, file: BinaryIO, size: int, growing: bool, news: News) -> bool:
        """Go on behind damaged bytes; with nothing behind them they are only an unfinished write."""
        if self.end >= size:
            return False
        if growing and not self._waited():
            news.waiting = True
            return False
        found = _search(file, self.end, size, self._late)
        if found == size:
            self._gaps.append((self.end, size - self.end))
            self.end = size
            return False
        if found is None:
            news.torn = f"{NAME}: the last {size - self.end} bytes are an unfinished record; all before it was read"
            return False
        self._gaps.append((self.end, found - self.end))
        self.end = found
        return True

    def _waited(self) -> bool:
        """Whether it does not go on here for a while; the next search is due after as long again."""
        if self._doubt[0] != self.end:
            self._doubt = self.end, time.monotonic()
        if time.monotonic() - self._doubt[1] < PATIENCE:
            return False
        self._doubt = self.end, time.monotonic()
        return True

    def _parts(self, places: Sequence[int], tails: bool) -> Iterator[tuple[int, Head, bytes, bytes | None]]:
        with open(reading.opened(self.path), "rb") as file:
            for place in places:
                file.seek(place - HEAD.size)
                (length,) = HEAD.unpack(file.read(HEAD.size))[:1]
                attempt, step, layout, _, numbers, notes = FRAME.unpack(file.read(FRAME.size))
                rest = length - FRAME.size - numbers - notes
                found = file.read(numbers) if not tails else b""
                file.seek(place + FRAME.size + numbers + notes)
                yield place, (attempt, step, layout), found, (file.read(rest) if tails and rest > 0 else None)

    def numbers(self, places: Sequence[int]) -> Iterator[tuple[int, Head, bytes]]:
        """Read the numbers of frames, and whose they are."""
        for place, head, numbers, _ in self._parts(places, tails=False):
            yield place, head, numbers

    def tails(self, places: Sequence[int]) -> Iterator[tuple[int, bytes | None]]:
        """Read the tails of frames."""
        for place, _, _, tail in self._parts(places, tails=True):
            yield place, tail

    def unsound(self, places: Sequence[int]) -> list[int]:
        """None: the checksum of a frame, its tail included, was checked when it was found."""
        return []


def _payload_at(file: BinaryIO, length: int, crc: int, letter: bytes) -> bytes | None:
    """What stands here, of a frame without its tail, which may be large; None if it is damaged."""
    held = length
    payload = file.read(min(length, FRAME.size))
    if letter == b"F":
        if len(payload) < FRAME.size:
            return None
        *_, numbers, notes = FRAME.unpack(payload)
        held = FRAME.size + numbers + notes
    if held > min(length, HEADED):
        return None
    payload += file.read(held - len(payload))
    found, rest = zlib.crc32(payload, zlib.crc32(letter)), length - held
    while rest > 0 and (part := file.read(min(CHUNK, rest))):
        found, rest = zlib.crc32(part, found), rest - len(part)
    return payload if found == crc else None


def _search(file: BinaryIO, begin: int, size: int, late: float) -> int | None:
    """Where the next undamaged frame begins; None if there is none, the end if it is not found in time."""
    overlap = HEAD.size + FRAME.size
    for at in range(begin, size, SEARCHED):
        file.seek(at)
        data = file.read(min(SEARCHED + overlap, size - at))
        for number, match in enumerate(LETTER.finditer(data)):
            start = match.start() - HEAD.size + 1
            likely = at + start > begin and _likely(data, start, size - at)
            if likely and _whole(file, at + start):
                return at + start
            if (likely or number % 1000 == 0) and time.monotonic() > late:
                return size
        if time.monotonic() > late:
            return size
    return None


def _likely(data: bytes, at: int, size: int) -> bool:
    """Whether this may be the head of a frame: checksums of long stretches take too long to try them everywhere."""
    if at < 0:
        return False  # found at the end of the stretch before this one
    length, _, letter = HEAD.unpack_from(data, at)
    begin = at + HEAD.size
    if begin + length > size:
        return False
    if letter != b"F":
        return data[begin : begin + 1] == b"{"
    if length < FRAME.size or begin + FRAME.size > len(data):
        return False
    attempt, _, layout, _, numbers, notes = FRAME.unpack_from(data, begin)
    return bool(attempt > 0 and layout > 0 and FRAME.size + numbers + notes <= length)


def _whole(file: BinaryIO, at: int) -> bool:
    """Whether an undamaged frame begins here."""
    file.seek(at)
    return _payload_at(file, *HEAD.unpack(file.read(HEAD.size))) is not None


def _add(news: News, letter: bytes, payload: bytes, place: int) -> bool:
    """Take in what was written; False if no writer writes this."""
    try:
        if letter == b"F":
            attempt, step, layout, time, numbers, notes = FRAME.unpack_from(payload)
            begin = FRAME.size + numbers
            entry = Entry(place, attempt, step, layout, time, payload[begin : begin + notes].decode() or None)
            if not entry.sound:
                return False
            news.entries.append(entry)
        elif letter == b"L":
            news.layouts.append(Layout(**reading.parsed(payload)))
        elif letter == b"A":
            news.attempts.append(Attempt.of(reading.parsed(payload)))
        else:
            _entries(news, reading.parsed(payload))
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def _entries(news: News, texts: Mapping[str, str]) -> None:
    for key, text in texts.items():
        try:
            news.meta[key] = reading.parsed(text)
        except reading.Refused as error:
            news.refused[key] = str(error)
