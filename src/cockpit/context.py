"""What the paper's ``with cockpit(step, info=...)`` was told, for quantities written in the paper's way."""

from collections.abc import Mapping
from typing import Any

from cockpit.core.errors import CockpitError

_info: dict[int, Mapping[str, Any]] = {}  # of the step under way only


def remember(global_step: int, info: Mapping[str, Any]) -> None:
    """Keep the facts of a step; those of other steps are dropped."""
    _info.clear()
    _info[global_step] = info


def forget() -> None:
    """Let go of the last step's tensors."""
    _info.clear()


def get_from_info(key: str, global_step: int) -> Any:
    """Return one fact of the step under way."""
    if key not in _info.get(global_step, {}):
        raise CockpitError(f'{key!r} is not known at step {global_step}; give it: cockpit(step, info={{"{key}": ...}})')
    return _info[global_step][key]


def get_loss(global_step: int) -> Any:
    """The mini-batch loss."""
    return get_from_info("loss", global_step)


def get_individual_losses(global_step: int) -> Any:
    """The individual losses."""
    return get_from_info("individual_losses", global_step)


def get_batch_size(global_step: int) -> Any:
    """The number of samples."""
    return get_from_info("batch_size", global_step)


def get_optimizer(global_step: int) -> Any:
    """The optimizer."""
    return get_from_info("optimizer", global_step)
