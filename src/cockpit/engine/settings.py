"""What stays the same from step to step, and what is remembered between steps."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from cockpit.engine.placement import Finder
from cockpit.engine.scaler import LossScale
from cockpit.layers.layout import Placement


@dataclass
class Settings:
    """Settings of a watched run."""

    batch_axis: int = 0
    batch_size: int | Callable[..., int] | None = None
    losses: Callable[..., Tensor] | None = None
    finder: Finder = field(default_factory=Finder)
    scale: LossScale = field(default_factory=LossScale)
    orders: dict[int, Placement] = field(default_factory=dict)  # by structure of the graph: its output
    eigenvector: Tensor | None = None  # of the last tracked step: the next search starts near it
    seed: int = 0
    compiled_seen: bool = False
