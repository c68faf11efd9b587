"""A run in the formats of other tools: CSV, Parquet, JSON, TensorBoard."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from cockpit.core.errors import CockpitError, unknown
from cockpit.core.histogram import Histogram
from cockpit.core.record import Record
from cockpit.store.long_tables import Table, tables
from cockpit.store.table import Recording

BATCH = 50_000  # rows written at once
MISSING = "{library} is not installed; run: pip install 'cockpit-deck[export]'"


def export(run: Recording, target: str, out: str | Path, force: bool = False) -> list[Path]:
    """Write a run for another tool, and return the files that were made.

    Args:
        run: What to write.
        target: ``"csv"``, ``"parquet"``, ``"json"`` or ``"tensorboard"``.
        out: A folder; or a file that ends in ``.csv``, ``.parquet`` or ``.json`` for the main table alone.
        force: Replace what is there.
    """
    if target not in TARGETS:
        raise unknown("format", target, TARGETS)
    place = Path(out)
    alone = place.suffix == f".{target}"
    taken = place.exists() and (place.is_file() or any(place.iterdir()))
    if taken and not force:
        raise CockpitError(f"{place} exists already; choose another place, or allow to replace it with --force")
    if not alone and place.is_file():
        raise CockpitError(f"{place} is a file; give a folder for the {target} files")
    try:
        (place.parent if alone else place).mkdir(parents=True, exist_ok=True)
        return TARGETS[target](run, place, alone)
    except OSError as error:
        raise CockpitError(f"{place} cannot be written: {error.strerror or error}; choose another place") from error


def _csv(run: Recording, place: Path, alone: bool) -> list[Path]:
    return _tables(run, place, alone, "csv", _write_csv)


def _parquet(run: Recording, place: Path, alone: bool) -> list[Path]:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise CockpitError(MISSING.format(library="pyarrow")) from None
    return _tables(run, place, alone, "parquet", _write_parquet)


def _tables(
    run: Recording, place: Path, alone: bool, suffix: str, write: Callable[[Table, Iterable[Any], Path], None]
) -> list[Path]:
    """Write each table that has rows; the wide one always."""
    made = []
    for table in tables(run):
        rows = iter(table.rows())
        first = list(islice(rows, 1))
        if not first and table.name != "scalars":
            continue
        path = place if alone else place / f"{table.name}.{suffix}"
        with _whole(path) as part:
            write(table, chain(first, rows), part)
        made.append(path)
        if alone:
            return made
    return [*made, _metadata(run, place)]


def _write_csv(table: Table, rows: Iterable[Any], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(rows)  # None becomes an empty cell, a number that is not finite stays nan or inf


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


def _json(run: Recording, place: Path, alone: bool) -> list[Path]:
    """The paper's log, which has no names and no reasons; and beside it every record with all there is."""
    output: dict[int, dict[str, Any]] = {}
    for record in run.records():
        output.setdefault(record.step, {})[record.name] = _listed(record.value)
    log = place if alone else place / "output.json"
    with _whole(log) as part:
        part.write_text(json.dumps(dict(sorted(output.items())), allow_nan=False), encoding="utf-8")
    if alone:
        return [log]
    lines = place / "records.jsonl"
    with _whole(lines) as part, part.open("w", encoding="utf-8") as file:
        for record in run.records():
            file.write(json.dumps(_entry(record), allow_nan=False) + "\n")
    return [log, lines, _metadata(run, place)]


def _entry(record: Record) -> dict[str, Any]:
    entry = {"step": record.step, "name": record.name, "kind": record.kind.value, "value": _plain(record.value)}
    if isinstance(record.value, Histogram):
        entry["value"]["parts"] = {name: counts.tolist() for name, counts in record.value.parts.items()}
    if record.reason is not None:
        entry["reason"] = record.reason
    return entry | ({"details": _plain(record.details)} if record.details else {})


def _listed(value: Any) -> Any:
    """Numbers of parameters as a list in the order of the parameters, as the paper's tool writes them."""
    if isinstance(value, dict) and all(isinstance(entry, int | float) for entry in value.values()):
        return [_plain(entry) for entry in value.values()]
    return _plain(value)


def _plain(value: Any) -> Any:
    """As JSON; numbers that are not finite as text."""
    if isinstance(value, Histogram):
        return value.as_dict()
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "items"):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return value if isinstance(value, int | str) or value is None else str(value)


def _tensorboard(run: Recording, place: Path, alone: bool) -> list[Path]:
    from cockpit.store.events import write

    return write(run, place)


def _metadata(run: Recording, place: Path) -> Path:
    path = place / "metadata.json"
    with _whole(path) as part:
        part.write_text(json.dumps(_plain(run.metadata), indent=1), encoding="utf-8")
    return path


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file to write that takes its place only when it is complete."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


TARGETS: dict[str, Callable[[Recording, Path, bool], list[Path]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "json": _json,
    "tensorboard": _tensorboard,
}
