"""The learning rate of each epoch: a factor on the base rates, or one of torch's schedulers."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn, zeros
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from cockpit.bench import origin, schedules
from cockpit.core.errors import CockpitError
from cockpit.core.plain import plain

Factory = Callable[[Optimizer], LRScheduler]
Given = str | schedules.Schedule | Factory  # how a user may say it


class Rates:
    """Sets the learning rates of an optimizer, once an epoch."""

    def __init__(self, given: Given, optimizer: Optimizer, epochs: int) -> None:
        self._optimizer = optimizer
        self._base = [group["lr"] for group in optimizer.param_groups]
        self._scheduler: LRScheduler | None = None
        self._factor: schedules.Schedule | None = None
        if is_factory(given):
            self._scheduler = _built(given, optimizer)
        else:
            self._factor = schedules.schedule(given, epochs)  # type: ignore[arg-type]

    def begin(self, epoch: int) -> None:
        """Set the rates that an epoch is trained with."""
        if self._factor is not None:
            factor = self._factor(epoch)
            for group, base in zip(self._optimizer.param_groups, self._base, strict=True):
                group["lr"] = base * factor

    def end(self, metrics: Mapping[str, float]) -> None:
        """An epoch was trained and judged: a scheduler takes its step."""
        if isinstance(self._scheduler, ReduceLROnPlateau):
            self._scheduler.step(metrics.get("valid_loss", metrics["train_loss"]))
        elif self._scheduler is not None:
            self._scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """What a continued run needs to know."""
        return {} if self._scheduler is None else self._scheduler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state)


def is_factory(given: Given) -> bool:
    """Whether a function makes a scheduler of an optimizer: if it takes an epoch, it is a factor."""
    if isinstance(given, str) or not callable(given):
        return False
    if isinstance(_unwrapped(given), type):
        return issubclass(_unwrapped(given), LRScheduler)
    try:
        return not isinstance(given(0), int | float)  # type: ignore[arg-type]
    except Exception:
        return True


def check(given: Given, epochs: int) -> None:
    """Refuse what is no schedule."""
    if is_factory(given):
        _tried(given, epochs)
    else:
        schedules.schedule(given, epochs)  # type: ignore[arg-type]


def label(given: Given, epochs: int) -> str:
    """What a result calls it: its name, a scheduler and its settings, or a function and a mark of what it gives.

    Functions have names in common, lambdas all of them: the mark keeps their runs apart.
    """
    if isinstance(given, str):
        return given
    inner, bound = _unwrapped(given), given.keywords if isinstance(given, partial) else {}
    name, settled = _name(given), not getattr(given, "args", ()) and all(map(_is_plain, bound.values()))
    if isinstance(inner, type) and settled and origin.is_torchs(inner):
        return "_".join([name, *(f"{key}_{_text(value)}" for key, value in bound.items())])
    known = _tried(given, epochs)
    if isinstance(inner, type) and not origin.is_torchs(inner):  # it may follow what no trial shows
        known = [known, origin.named(inner), origin.mark(inner)]
    return f"{name}_{hashlib.sha256(json.dumps(known).encode()).hexdigest()[:8]}"


def _tried(given: Any, epochs: int) -> list[Any]:
    """The rate of each epoch, with an optimizer that trains nothing."""
    idle = SGD([nn.Parameter(zeros(1))], lr=0.1, momentum=0.9)
    rates, found = Rates(given, idle, epochs), []
    for epoch in range(epochs):
        rates.begin(epoch)
        found.append(float(idle.param_groups[0]["lr"]))
        idle.step()
        try:
            rates.end({"train_loss": 1.0})
        except ValueError as error:
            raise CockpitError(f"schedule {_name(given)} fails after {epoch + 1} epochs: {error}") from error
    return [found, plain(rates.state_dict())] if isinstance(rates._scheduler, ReduceLROnPlateau) else found


def _name(given: Any) -> str:
    return schedules.label(_unwrapped(given)).strip("<>")


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float | str)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _unwrapped(given: Any) -> Any:
    return _unwrapped(given.func) if isinstance(given, partial) else given


def _built(factory: Any, optimizer: Optimizer) -> LRScheduler:
    try:
        made = factory(optimizer)
    except Exception as error:
        raise CockpitError(
            f"schedule {_name(factory)} makes no scheduler of an optimizer ({error}), and gives no factor for an epoch"
        ) from error
    if not isinstance(made, LRScheduler):
        raise CockpitError(
            f"schedule {_name(factory)} gives {made!r}; return a factor on the rate for an epoch, "
            "or a torch.optim.lr_scheduler for an optimizer"
        )
    return made
