"""What stays the same from step to step, and what is remembered between steps."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from cockpit.engine.autograd.scaler import LossScale
from cockpit.engine.autograd.trust import Trust
from cockpit.engine.blueprint import Blueprints
from cockpit.engine.familiar import Acquaintances
from cockpit.engine.placement import Finder
from cockpit.engine.program import Programs
from cockpit.engine.recorded import RecordedCurvature
from cockpit.engine.ways import Ways
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
    eigenvector: Tensor | None = None  # of the last tracked step, several mixed: the next search starts near them
    trusted: Trust = field(default_factory=Trust)  # ways around autograd that agree with it
    looped: set[str] = field(default_factory=set)  # operations through which columns go one by one
    regularised: set[str] = field(default_factory=set)  # parameters whose gradient has a part that no sample gave
    seed: int = 0
    ways: Ways = field(default_factory=Ways)  # to the statistics of individual gradients, as they were asked for
    compiled_seen: bool = False
    programs: Programs = field(default_factory=Programs)
    blueprints: Blueprints = field(default_factory=Blueprints)
    familiar: Acquaintances = field(default_factory=Acquaintances)

    def __post_init__(self) -> None:
        self.recorded = RecordedCurvature(self.programs)
