"""Folders that somebody made to hurt whoever reads them: each function spoils a copy of a sound run."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from cockpit.store.framed import HEAD, MAGIC
from cockpit.store.sqlite import _attempt_crc, frame_crc, text_crc
from cockpit.store.tail import pack_array, pack_sparse

Spoil = Callable[[Path], None]
CASES: dict[str, Spoil] = {}
ODD: dict[str, Any] = {
    "name": {"a": [1]}, "steps": "abc", "started": "yesterday", "model": "x", "quantities": 5, "cost": [1],
    "coverage": {"a": 1}, "optimizers": "no", "schedule": [], "packages": 3, "git": 7, "host": {}, "device": [],
    "loss": {"x": 1}, "command": 4, "config": [1],
}  # fmt: skip
ODDER: dict[str, Any] = {
    "name": None, "steps": 10**400, "started": True, "model": {"layers": [1, "a", {"name": 5}]}, "attempts": "x",
    "quantities": [{"name": {}}], "optimizers": [{"groups": 5}], "lost": {},
    "cost": {"budget": {"tiers": [5, {"name": []}], "share": "x"}, "seconds": {"a": "b"}},
}  # fmt: skip


def case(spoil: Spoil) -> Spoil:
    CASES[spoil.__name__] = spoil
    return spoil


def change(folder: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(folder / "run.db")) as database, database:
        database.execute("PRAGMA journal_mode=DELETE")
        for statement, given in statements:
            database.execute(statement, given)


def tell(folder: Path, **entries: str) -> None:
    """Put metadata there as JSON, with the right checksum."""
    rows = [(key, text, text_crc(key, text.encode())) for key, text in entries.items()]
    change(folder, *(("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", row) for row in rows))


def attempted(folder: Path, **values: Any) -> None:
    names = ("id", "first_step", "started", "reached", "lost", "state", "reason", "frames")
    row = {**dict(zip(names, (1, 0, 1.0, 5, 0, "finished", None, 5), strict=True)), **values}
    entries = tuple(row.values())
    place = ("INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*entries, _attempt_crc(entries)))
    change(folder, ("DELETE FROM attempts", ()), place)


def laid_out(folder: Path, text: str) -> None:
    change(folder, ("UPDATE layouts SET layout = ?, crc = ?", (text, text_crc(1, text.encode()))))


def framed(folder: Path, **values: Any) -> None:
    """Give all frames these values, with the right checksum."""
    columns = ["id", "attempt", "step", "layout", "time", "notes", "numbers", "tail"]
    with closing(sqlite3.connect(folder / "run.db")) as database:
        rows = database.execute(f"SELECT {', '.join(columns)} FROM frames").fetchall()
    for row in rows:
        new = {**dict(zip(columns, row, strict=True)), **values}
        size = None if new["tail"] is None else len(new["tail"])
        notes = None if new["notes"] is None else new["notes"].encode()
        crc = frame_crc(new["id"], new["attempt"], new["step"], new["layout"], new["time"], size, notes, new["numbers"])
        given = tuple(new[key] for key in columns[1:])
        what = ", ".join(f"{key} = ?" for key in columns[1:])
        change(folder, (f"UPDATE frames SET {what}, crc = ? WHERE id = ?", (*given, crc, new["id"])))


def tailed(body: bytes, packed: bool = False) -> bytes:
    content = b"\1" + zlib.compress(body, 1) if packed else b"\0" + body
    return struct.pack("<I", zlib.crc32(content)) + content


def chunk(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def locked(folder: Path, text: str) -> None:
    (folder / "run.lock").write_text(text)


def replaced(folder: Path, name: str, make: Callable[[Path], Any]) -> None:
    (folder / name).unlink(missing_ok=True)
    make(folder / name)


for _name in ("run.db", "run.lock", "run.db-wal", "run.db-journal", "run.db-shm", "run.frames", "result.json"):
    CASES[f"pipe {_name}"] = lambda folder, name=_name: replaced(folder, name, os.mkfifo)  # type: ignore[misc]
    CASES[f"folder {_name}"] = lambda folder, name=_name: replaced(folder, name, Path.mkdir)  # type: ignore[misc]
    CASES[f"device {_name}"] = lambda folder, name=_name: replaced(  # type: ignore[misc]
        folder, name, lambda path: path.symlink_to("/dev/zero")
    )
for _number, _text in enumerate((
    '{"attempt": "a", "pid": 1, "host": "vm", "time": "x"}',
    '{"attempt": 1, "pid": "x", "host": ["a"], "time": {}, "reached": "x", "lost": "q", "state": 5, "frames": "z"}',
    '{"attempt": 9, "pid": 1, "host": "vm", "time": NaN, "reached": 1e400, "state": "<img>"}',
    '{"attempt": 1, "pid": 1, "host": "vm", "time": 1' + "0" * 400 + "}",
    '{"attempt": 1, "pid": 1, "host": "elsewhere", "time": 1e300}',
    '{"attempt": -1, "pid": 1, "host": "vm", "time": 1.0, "reached": -5, "lost": -1}',
    "[" * 1000, "null", '"text"', "7", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
)):  # fmt: skip
    CASES[f"lock {_number}"] = lambda folder, text=_text: locked(folder, text)  # type: ignore[misc]
for _key in ODD:
    CASES[f"odd {_key}"] = lambda folder, key=_key: tell(folder, **{key: json.dumps(ODD[key])})  # type: ignore[misc]
for _key in ODDER:
    CASES[f"odder {_key}"] = lambda folder, key=_key: tell(folder, **{key: json.dumps(ODDER[key])})  # type: ignore[misc]
for _number, _values in enumerate((
    {"started": "x"}, {"reached": "y"}, {"lost": "z"}, {"state": 7}, {"reason": 5}, {"frames": "q"},
    {"started": 1e308}, {"reached": 2**62, "lost": 2**62, "frames": 2**62}, {"id": -1}, {"reason": "x" * 500_000},
    {"state": "<script>"}, {"first_step": "s"}, {"first_step": -5},
)):  # fmt: skip
    CASES[f"attempt {_number}"] = lambda folder, values=_values: attempted(folder, **values)  # type: ignore[misc]
HISTOGRAM = '[["H","histogram",["h",[%s],["w"]],["d"]]]'
for _number, _text in enumerate((
    '[["Loss","scalar","zz",{"a":5}],[1,2]]', "[[]]", "{}", "7", "null", '[["Loss","nothing","f",["d"]]]',
    '[["Loss","scalar",' + '["d",["x",' * 5000 + '"f"' + "]]" * 5000 + ',["d"]]]',
    HISTOGRAM % "1000000000", HISTOGRAM % "3000000,3000000", HISTOGRAM % "-1", HISTOGRAM % '"x"', HISTOGRAM % "",
    '[["Wide","per_parameter",["F"' + ',"a"' * 500_000 + '],["d"]]]', '[[' + '"x' * 1000 + '","scalar","f",["d"]]]',
    '[["Loss","per_parameter","f",["d"]]]', '[["Loss","histogram","f",["d"]]]', '[["L","per_sample",["c","x"],["d"]]]',
    '[["Loss","scalar",["F","a"],["d"]]]', '[[5,"scalar","f",["d"]]]', '[["Loss","scalar","f","f"]]',
    '[["Loss","scalar","f",["F","standard_error"]]]', '[["Loss","scalar","f",["d",["standard_error","f"]]]]',
)):  # fmt: skip
    CASES[f"layout {_number}"] = lambda folder, text=_text: laid_out(folder, text)  # type: ignore[misc]
for _number, _values in enumerate((
    {"step": 2**62}, {"step": -(2**62)}, {"time": 1e300}, {"layout": 99}, {"attempt": 77}, {"numbers": b""},
    {"notes": "[[0,5,1]]"}, {"notes": "[" * 500}, {"notes": '[["a",null,{}]]'}, {"notes": "x" * 500_000},
    {"notes": "[[99,null,1]]"}, {"notes": "7"}, {"tail": b""}, {"tail": b"\0\0\0\0\0"}, {"numbers": b"\xff" * 80_000},
    {"tail": tailed(struct.pack("<I", 1 << 28) + bytes(1 << 28), packed=True)},
    {"tail": tailed(chunk(pack_sparse(*2 * (np.array([2**40]),))))},
    {"tail": tailed(chunk(b'["O", [1000000000]]\n'))}, {"tail": tailed(chunk(b"[" * 100_000))},
    {"tail": tailed(chunk(pack_array(np.zeros(3)).replace(b"[3]", b"[-1, 0]")))},
)):  # fmt: skip
    CASES[f"frame {_number}"] = lambda folder, values=_values: framed(folder, **values)  # type: ignore[misc]


@case
def deep_metadata(folder: Path) -> None:
    tell(folder, x="[" * 200_000 + "]" * 200_000)


@case
def many_values(folder: Path) -> None:
    tell(folder, x="[" + "[]," * 4_000_000 + "1]")


@case
def a_long_number(folder: Path) -> None:
    tell(folder, steps="9" * 5000, started="NaN")


@case
def infinite(folder: Path) -> None:
    tell(folder, steps="1e999", started="Infinity", cost='{"elapsed": NaN, "budget": {"spent": Infinity}}')


@case
def a_long_text(folder: Path) -> None:
    tell(folder, note=json.dumps("A" * 60_000_000))


@case
def a_long_name(folder: Path) -> None:
    tell(folder, name=json.dumps("N" * 1_000_000))


@case
def halves_of_characters(folder: Path) -> None:
    tell(folder, name='"\\ud800"', command='"\\udc00 \\u0000 \\u001b[31m"', model='{"class": "\\ud800"}')


@case
def many_entries(folder: Path) -> None:
    rows = [(f"k{place}", "1", text_crc(f"k{place}", b"1")) for place in range(30_000)]
    change(folder, *(("INSERT INTO meta VALUES (?, ?, ?)", row) for row in rows))


@case
def many_layouts(folder: Path) -> None:
    texts = [f'[["m{place}","scalar","f",["d"]]]' for place in range(2, 20_000)]
    rows = [(place, text, text_crc(place, text.encode())) for place, text in enumerate(texts, 2)]
    change(folder, *(("INSERT INTO layouts VALUES (?, ?, ?)", row) for row in rows))


ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT"
for _table, _columns in (
    ("frames", "id, attempt, step, layout, time, crc, notes, numbers, tail"),
    ("meta", "key, value, crc"), ("layouts", "id, layout, crc"),
    ("attempts", "id, first_step, started, reached, lost, state, reason, frames, crc"),
):  # fmt: skip
    CASES[f"endless {_table}"] = lambda folder, table=_table, columns=_columns: change(  # type: ignore[misc]
        folder,
        (f"ALTER TABLE {table} RENAME TO other", ()),
        (f"CREATE VIEW {table}({columns}) AS {ENDLESS} {', '.join('n' for _ in columns.split(','))} FROM r", ()),
    )


@case
def a_computed_column(folder: Path) -> None:
    change(
        folder,
        ("DROP TABLE layouts", ()),
        ("CREATE TABLE layouts (id INTEGER PRIMARY KEY, crc INTEGER, layout TEXT AS (hex(zeroblob(400000000))))", ()),
        ("INSERT INTO layouts VALUES (1, 1)", ()),
    )


@case
def no_tables(folder: Path) -> None:
    change(folder, ("DROP TABLE frames", ()))


@case
def a_damaged_schema(folder: Path) -> None:
    data = (folder / "run.db").read_bytes()
    (folder / "run.db").write_bytes(data.replace(b"CREATE TABLE frames (id", b"CREATE TABLE \xff\xfe\x80es (id"))


@case
def pages_that_point_back(folder: Path) -> None:
    """Every pointer of every inner page to one leaf: its rows come again and again."""
    data = bytearray((folder / "run.db").read_bytes())
    leaves = [at for at in range(0, len(data), 4096) if data[at] == 0x0D]
    for at in range(4096, len(data), 4096):
        if data[at] == 0x05:
            data[at + 8 : at + 12] = struct.pack(">I", leaves[-1] // 4096 + 1)
    (folder / "run.db").write_bytes(data)


@case
def a_huge_empty_database(folder: Path) -> None:
    with (folder / "run.db").open("r+b") as file:
        file.truncate(8 << 30)


@case
def a_huge_empty_log(folder: Path) -> None:
    (folder / "run.db").unlink()
    with (folder / "run.frames").open("wb") as file:
        file.write(MAGIC + b"x")
        file.truncate(8 << 30)


@case
def a_frame_as_long_as_a_huge_file(folder: Path) -> None:
    (folder / "run.db").unlink()
    with (folder / "run.frames").open("wb") as file:
        file.write(MAGIC + HEAD.pack(0xFFFFFF00, 0, b"F") * 1000)
        file.truncate(5 << 30)


@case
def likely_frames(folder: Path) -> None:
    """Each of them may be one, by its head, and is not by its checksum, which takes long to see."""
    (folder / "run.db").unlink()
    (folder / "run.frames").write_bytes(
        MAGIC + b"x" + (HEAD.pack(1 << 24, 0, b"M") + b"{") * 2_000_000 + bytes(1 << 20)
    )


@case
def nowhere(folder: Path) -> None:
    replaced(folder, "run.db", lambda path: path.symlink_to("/nowhere/at/all"))


@case
def a_folder_in_itself(folder: Path) -> None:
    (folder / "loop").symlink_to("..")


@case
def a_deep_result(folder: Path) -> None:
    (folder / "result.json").write_text("[" * 200_000)


@case
def an_odd_result(folder: Path) -> None:
    curves = {"test_loss": [1, 2, "x", None]}
    text = json.dumps(
        {"format": 1, "problem": "<img>", "optimizer": [], "curves": curves, "seed": 1, "epochs": "1" * 400}
    )
    (folder / "result.json").write_text(text)
