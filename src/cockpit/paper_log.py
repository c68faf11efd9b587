"""The paper's JSON log: ``{step: {quantity: value}}`` with plain lists."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cockpit.core.plain import listed, text
from cockpit.core.writing import whole


def write_json(output: Mapping[int, Mapping[str, Any]], path: Path) -> None:
    """Write atomically: a reader never sees half a log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    log = {str(step): {text(name): listed(value) for name, value in values.items()} for step, values in output.items()}
    with whole(path) as part:
        part.write_text(json.dumps(log, allow_nan=False), encoding="utf-8")
