"""The paper's JSON log: ``{step: {quantity: value}}`` with plain lists."""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from cockpit.core.histogram import Histogram


def write_json(output: Mapping[int, Mapping[str, Any]], path: Path) -> None:
    """Write atomically: a reader never sees half a log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {str(step): {name: _listed(value) for name, value in values.items()} for step, values in output.items()}
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(plain, allow_nan=False), encoding="utf-8")
    part.replace(path)


def _listed(value: Any) -> Any:
    """Per-parameter numbers as a list in the order of the parameters, as the paper's tool writes them."""
    if isinstance(value, Mapping) and value and all(isinstance(entry, float) for entry in value.values()):
        return [_plain(entry) for entry in value.values()]
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Histogram):
        return value.as_dict()
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value if isinstance(value, int | str | bool) or value is None else str(value)
