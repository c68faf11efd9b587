"""The learning rate of each epoch: a factor on the base rates, or one of torch's schedulers."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from cockpit.bench import schedules
from cockpit.core.errors import CockpitError

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
    """Refuse what is no schedule; whether a function makes a scheduler shows when there is an optimizer."""
    if not is_factory(given):
        schedules.schedule(given, epochs)  # type: ignore[arg-type]


def label(given: Given) -> str:
    """What a result calls it: its name, or the scheduler and its settings."""
    if isinstance(given, partial):
        return "_".join([label(given.func), *(f"{key}_{_text(value)}" for key, value in given.keywords.items())])
    return schedules.label(given)  # type: ignore[arg-type]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _unwrapped(given: Any) -> Any:
    return _unwrapped(given.func) if isinstance(given, partial) else given


def _built(factory: Any, optimizer: Optimizer) -> LRScheduler:
    try:
        made = factory(optimizer)
    except Exception as error:
        raise CockpitError(
            f"schedule {label(factory)} makes no scheduler of an optimizer ({error}), and gives no factor for an epoch"
        ) from error
    if not isinstance(made, LRScheduler):
        raise CockpitError(
            f"schedule {label(factory)} gives {made!r}; return a factor on the rate for an epoch, "
            "or a torch.optim.lr_scheduler for an optimizer"
        )
    return made
