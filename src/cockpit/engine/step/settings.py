"""What stays the same from step to step, and what is remembered between steps."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch import Tensor

from cockpit.engine.autograd.allowance import Allowance
from cockpit.engine.autograd.eager import compilations
from cockpit.engine.autograd.scaler import LossScale
from cockpit.engine.autograd.structures import Structures
from cockpit.engine.curvature.gauss_newton import Memory


@dataclass
class Settings:
    """Settings of a watched run."""

    batch_axis: int = 0
    batch_size: int | Callable[..., int] | None = None
    losses: Callable[..., Tensor] | None = None
    scale: LossScale = field(default_factory=LossScale)
    structures: Structures = field(default_factory=Structures)
    allowance: Allowance = field(default_factory=Allowance)
    seed: int = 0
    passes: int = 0  # backward passes of the last step; 0: none was seen
    careful: int = 0  # so many steps may have several again
    process: str | None = None  # which of several, whose gradients are averaged while they arrive
    compiled: int = field(default_factory=compilations)  # before the run; -1: the model is
    stays_compiled: str = ""  # why compiled code does not run eagerly on tracked steps
    paths: set[tuple[str, str]] = field(default_factory=set)  # of the last step's statistics: name, path
    buffers: Callable[[], Iterable[Tensor]] = tuple  # of the model: a recomputed forward pass may change them
    curvature: Memory = field(default_factory=Memory)
