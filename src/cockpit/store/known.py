"""The metadata that cockpit itself writes and reads: what each entry must look like; one that does not is left out."""

from collections.abc import Mapping
from typing import Any

from cockpit.core.shape import Shape, keyed, listed, mapped, maybe, moment, text, whole

NAME = 300  # characters of a run's name that are shown
ENTRIES: Mapping[str, Shape] = {
    "started": maybe(moment),
    "steps": maybe(whole),
    "host": maybe(text(1000)),
    "command": maybe(text()),
    "directory": maybe(text()),
    "packages": mapped(text(1000)),
    "git": maybe(keyed(commit=maybe(text(1000)), branch=maybe(text(1000)))),
    "model": keyed(
        **{"class": text(1000)},
        elements=whole,
        trainable=whole,
        layers=listed(
            keyed(
                name=text(), type=text(1000), parameters=listed(keyed(name=text(), shape=listed(whole), elements=whole))
            )
        ),
    ),
    "device": maybe(text(10_000)),
    "optimizers": listed(keyed(**{"class": text(1000)}, groups=listed(mapped()))),
    "loss": maybe(text(1000)),
    "quantities": listed(keyed(name=text(1000), kind=text(100), cost=maybe(text(100)))),
    "schedule": maybe(text(10_000)),
    "coverage": maybe(text(1_000_000)),
    "cost": keyed(elapsed=maybe(lambda value: isinstance(value, int | float))),
    "config": mapped(),
}


def fits(key: str, value: Any) -> bool:
    """Whether an entry can be used; those that cockpit does not know may be anything."""
    return key not in ENTRIES or ENTRIES[key](value)


def shortened(name: Any) -> Any:
    """A name that is too long to be shown, cut."""
    return name[:NAME] + "…" if isinstance(name, str) and len(name) > NAME else name
