"""What stays the same from step to step, and what is remembered between steps."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from cockpit.engine.placement import Finder
from cockpit.engine.scaler import LossScale


@dataclass
class Settings:
    """Settings of a watched run."""

    batch_axis: int = 0
    batch_size: int | Callable[..., int] | None = None
    losses: Callable[..., Tensor] | None = None
    finder: Finder = field(default_factory=Finder)
    scale: LossScale = field(default_factory=LossScale)
    orders: dict[int, int] = field(default_factory=dict)  # structure of a graph -> how its output holds the samples
    eigenvector: Tensor | None = None  # of the last tracked step: the next search starts near it
    seed: int = 0
    compiled_seen: bool = False
