"""Lines of results: one JSON object each, written as soon as it is known, so that a killed run keeps what it has.

A file begins with the machine and the command; a file may hold several runs, and of equal lines the last one counts.
"""

import json
import os
import platform
import shlex
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quiet import BUSY

Row = dict[str, Any]
KEY = ("kind", "tool", "device", "net", "optimizer", "what", "every", "share")


def machine(device: str) -> Row:
    """What the numbers were measured on."""
    import torch  # the report reads results without it

    found: Row = {"kind": "machine", "cpu": processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    found |= {"torch": torch.__version__, "python": platform.python_version(), "system": platform.system()}
    if device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    return found | {"command": command(sys.argv), "date": datetime.now(UTC).date().isoformat()}


def command(arguments: list[str]) -> str:
    """What was typed, without the folders of this machine and where the results went."""
    script, *options = arguments
    if "--out" in options:
        place = options.index("--out")
        del options[place : place + 2]
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *options])


def processor() -> str:
    """The name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


class Sink:
    """Prints each result, and appends it to a file if there is one."""

    def __init__(self, path: Path | None, **common: Any) -> None:
        self._path, self._common = path, common
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def machine(self, row: Row) -> None:
        """Begin a run."""
        where = row.get("gpu") or f"{row['cpu']}, {row['threads']} threads"
        print(f"# torch {row['torch']}, Python {row['python']}, {where}", flush=True)
        self._write(row)

    def __call__(self, **row: Any) -> None:
        """One result."""
        print(line(row), flush=True)
        self._write({**self._common, **row})

    def _write(self, row: Row) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def line(row: Row) -> str:
    """A result for the eye."""
    busy = f"  (others: {row['others']:.0%} of the machine)" if (row.get("others") or 0) >= BUSY else ""
    return _words(row) + busy


def _words(row: Row) -> str:
    words = f"{row['net']:12} {row['optimizer']:4} {row['what']:16} "
    if "error" in row:
        return words + f"failed: {row['error']}"
    if row["kind"] == "memory":
        return words + f"{row['plain_mib']:8.0f} MiB {row['tracked_mib']:8.0f} MiB"
    if row["kind"] == "budget":
        counts = f"{row['tracked']} of {row['steps']} steps tracked, {row['complete']} with everything"
        return words + f"{counts}, time x {row['ratio']:.3f}{_sureness(row)}"
    every = "never" if row["every"] is None else f"every {row['every']}"
    words += f"{every:10} {row['plain_ms']:9.2f} ms {row['tracked_ms']:10.2f} ms  x {row['ratio']:.4g}"
    if "free_ratio" in row:
        words += f", free x {row['free_ratio']:.4g}"
    return words + (f"  undefined: {', '.join(row['undefined'])}" if row.get("undefined") else "")


def _sureness(row: Row) -> str:
    """How far chance may have moved a ratio, and what cannot be moved so easily; older rows do not say."""
    if "chance" not in row:
        return ""
    cores = f", cores x {row['cpu_ratio']:.3f}" if "cpu_ratio" in row else ""
    return f" ± {row['chance']:.3f}, block by block x {row['block_ratio']:.3f}{cores}"


def key_of(row: Row) -> tuple[Any, ...]:
    """What makes two results the same measurement."""
    return tuple(row.get(name) for name in KEY)


def read(paths: Iterable[Path]) -> list[Row]:
    """All results, each with its machine under ``machine``; of equal ones the last."""
    found: dict[tuple[Any, ...], Row] = {}
    for path in paths:
        where: Row = {}
        for text in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(text)
            if row["kind"] == "machine":
                where = row
            else:
                found[key_of(row)] = {**row, "machine": where}
    return list(found.values())
