"""What a step of an optimizer costs, as ``cockpit bench runtime --json`` measured it: never from seconds of packs."""

import json
from pathlib import Path

from cockpit.core.errors import CockpitError


def read_costs(file: Path) -> dict[str, float]:
    """Training times as multiples of SGD's, by optimizer; of one measured twice the later counts, SGD's is 1."""
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise CockpitError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    found = {"SGD": 1.0}
    for number, line in enumerate(lines, 1):
        try:
            one = json.loads(line)
            found[str(one["optimizer"])] = float(one["ratio"])
        except (ValueError, KeyError, TypeError) as error:
            raise CockpitError(
                f"{file}:{number} is no line of `cockpit bench runtime --json` ({error}); measure it again"
            ) from error
    return found
