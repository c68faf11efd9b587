"""A run in the formats of other tools: CSV, Parquet, JSON, TensorBoard."""

import csv
import json
from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cockpit.core.errors import CockpitError, unknown
from cockpit.core.histogram import Histogram
from cockpit.core.plain import listed, plain, text
from cockpit.core.record import Record
from cockpit.core.writing import Staged, refusing
from cockpit.store.long_tables import NAMES, Table, tables
from cockpit.store.table import Recording

BATCH = 50_000  # rows written at once
MISSING = "{library} is not installed; run: pip install 'cockpit-deck[export]'"
METADATA, LOG, RECORDS = "metadata.json", "output.json", "records.jsonl"
EVENTS = "events.out.tfevents.*.cockpit"  # the end tells ours from those of anybody else
OURS = {LOG, RECORDS, *(f"{name}.{suffix}" for name in NAMES for suffix in ("csv", "parquet"))}
EXPORTED = "exported"  # in the metadata: what else was written


def export(run: Recording, target: str, out: str | Path, force: bool = False) -> list[Path]:
    """Write a run for another tool, and return the files that were made: all of them, or none after an error.

    A quantity or metric called ``step`` has the column ``step (metric)``: the step itself is never lost.

    Args:
        run: What to write.
        target: ``"csv"``, ``"parquet"``, ``"json"`` or ``"tensorboard"``.
        out: A folder; or a file that ends in ``.csv``, ``.parquet`` or ``.json`` for the main table alone.
        force: Replace the file, or all that an earlier export wrote into the folder; other files stay.
    """
    if target not in TARGETS:
        raise unknown("format", target, TARGETS)
    place = Path(out)
    alone = place.suffix == f".{target}"
    with refusing(place):
        _check(place, target, alone, force)
        (place.parent if alone else place).mkdir(parents=True, exist_ok=True)
        earlier = set() if alone else _earlier(place)
        with Staged() as files:
            TARGETS[target](run, place, alone, files)
        for path in earlier.difference(files.paths):
            path.unlink(missing_ok=True)
    return files.paths


def _check(place: Path, target: str, alone: bool, force: bool) -> None:
    folder = place.is_dir()
    if place.exists() and not folder and not alone:
        raise CockpitError(f"{place} is a file; give a folder for the {target} files")
    if folder and alone:
        raise CockpitError(f"{place} is a folder; give a file for the main table, or a folder without this suffix")
    taken = any(place.iterdir()) if folder else place.exists()
    if taken and not force:
        raise CockpitError(f"{place} exists already; choose another place, or allow to replace it with --force")


def _earlier(folder: Path) -> set[Path]:
    """What earlier exports wrote into this folder, as far as it is certain that they did."""
    found = set(folder.glob(EVENTS))
    try:
        written = json.loads((folder / METADATA).read_text(encoding="utf-8"))[EXPORTED]
        names = {str(name) for name in written}
    except (OSError, ValueError, LookupError, TypeError):
        return found
    return found | {folder / name for name in names & OURS} | {folder / METADATA}


def _csv(run: Recording, place: Path, alone: bool, files: Staged) -> None:
    _tables(run, place, alone, files, "csv", _write_csv)


def _parquet(run: Recording, place: Path, alone: bool, files: Staged) -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise CockpitError(MISSING.format(library="pyarrow")) from None
    _tables(run, place, alone, files, "parquet", _write_parquet)


def _tables(
    run: Recording,
    place: Path,
    alone: bool,
    files: Staged,
    suffix: str,
    write: Callable[[Table, Iterable[Any], Path], None],
) -> None:
    """Write each table that has rows; the wide one always."""
    wide, *long = tables(run)
    write(wide, wide.rows(), files.part(place if alone else place / f"{wide.name}.{suffix}"))
    if alone:
        return
    for table in long:
        rows = iter(table.rows())
        first = list(islice(rows, 1))
        if first:
            write(table, chain(first, rows), files.part(place / f"{table.name}.{suffix}"))
    _metadata(run, place, files)


def _write_csv(table: Table, rows: Iterable[Any], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(map(_cells, rows))


def _cells(row: Iterable[Any]) -> list[Any]:
    """None is an empty cell; what is not finite is spelled as pandas and polars both read it: NaN, inf, -inf."""
    return ["NaN" if cell != cell else cell for cell in row]


def _write_parquet(table: Table, rows: Iterable[Any], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema([(name, types[kind]) for name, kind in table.columns.items()])
    rows = iter(rows)
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rows, BATCH)):
            columns = zip(*batch, strict=True)
            arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _json(run: Recording, place: Path, alone: bool, files: Staged) -> None:
    """The paper's log, which has no names and no reasons; and beside it every record with all there is."""
    output: dict[int, dict[str, Any]] = {}
    for record in run.records():
        output.setdefault(record.step, {})[text(record.name)] = listed(record.value)
    log = files.part(place if alone else place / LOG)
    log.write_text(json.dumps(dict(sorted(output.items())), allow_nan=False), encoding="utf-8")
    if alone:
        return
    with files.part(place / RECORDS).open("w", encoding="utf-8") as file:
        for record in run.records():
            file.write(json.dumps(_entry(record), allow_nan=False) + "\n")
    _metadata(run, place, files)


def _entry(record: Record) -> dict[str, Any]:
    entry = {"step": record.step, "name": text(record.name), "kind": record.kind.value, "value": plain(record.value)}
    if isinstance(record.value, Histogram):
        entry["value"]["parts"] = plain(record.value.parts)
    if record.reason is not None:
        entry["reason"] = text(record.reason)
    return entry | ({"details": plain(record.details)} if record.details else {})


def _tensorboard(run: Recording, place: Path, alone: bool, files: Staged) -> None:
    from cockpit.store.events import file_name, write

    write(run, files.part(place / file_name()))


def _metadata(run: Recording, place: Path, files: Staged) -> None:
    """What is known about the run, what of it could not be read, and what was written beside this file."""
    known = dict(run.metadata)
    if damaged := getattr(run, "damaged", None):
        known["damaged"] = damaged
    known[EXPORTED] = [path.name for path in files.paths]
    path = files.part(place / METADATA)
    path.write_text(json.dumps(plain(known), indent=1), encoding="utf-8")


TARGETS: dict[str, Callable[[Recording, Path, bool, Staged], None]] = {
    "csv": _csv,
    "parquet": _parquet,
    "json": _json,
    "tensorboard": _tensorboard,
}
