"""What an optimizer says about its hyperparameters."""

import inspect
from typing import Any

from cockpit.bench.optimizers import Choice
from cockpit.optimizers import find


def known(choice: Choice) -> list[str]:
    """The hyperparameters of an optimizer; none where it does not tell."""
    rule = find(choice.name)
    return list(rule.defaults if rule is not None else _signature(choice))


def defaults(choice: Choice, complete: bool) -> dict[str, Any]:
    """The numbers that an optimizer has if nothing is said; ``complete``: whether the choice was made so."""
    if (rule := find(choice.name)) is not None:
        return dict(rule.defaults)
    own = {
        name: value
        for name, value in _signature(choice).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return own | (choice.hyperparameters if complete else {})


def numbers(entry: Any, key: str, default: Any) -> Any:
    """An entry of a space, whole numbers as floats where the optimizer has a float."""
    if not (key == "lr" or isinstance(default, float)) or isinstance(entry, bool):
        return entry
    if isinstance(entry, int):
        return float(entry)
    if isinstance(entry, dict) and "choice" in entry:
        return entry | {"choice": [numbers(value, key, default) for value in entry["choice"]]}
    return entry


def _signature(choice: Choice) -> dict[str, Any]:
    """What an optimizer takes besides its parameters, with its own defaults; empty where it takes anything."""
    try:
        parameters = list(inspect.signature(choice.make).parameters.values())[1:]
    except (TypeError, ValueError):
        return {}
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return {}
    found = {one.name: None if one.default is one.empty else one.default for one in parameters}
    if "betas" in found:
        betas = found.pop("betas")
        found |= dict(zip(("beta1", "beta2"), betas if isinstance(betas, tuple) else (0.9, 0.999), strict=False))
    return found
