"""What the tracked steps showed about the model, and what they cost: for ``explain``."""

import logging
from dataclasses import dataclass, field

from cockpit.engine.observation import Observation

log = logging.getLogger("cockpit")


@dataclass
class Coverage:
    """What the last tracked steps showed."""

    uncovered: dict[str, str] = field(default_factory=dict)
    share: float = 1.0  # of all parameter elements that have individual gradients
    flaw: str | None = None  # why the last step had no individual gradients at all
    coupled: bool = False
    samples: tuple[int, int] = (0, 0)  # whose individual gradients the last step took, and its batch
    regularised: bool = False
    accumulation: int = 1
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def book(self, name: str, seconds: float, times: int = 1) -> None:
        """Add to what a part has cost."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.counts[name] = self.counts.get(name, 0) + times

    def note(self, step: Observation) -> None:
        """Look at a step; what is new and matters is said."""
        missing = step.uncovered
        for name in missing.keys() - self.uncovered.keys():
            log.warning("%s is left out of individual gradients: %s", name, missing[name])
        self.uncovered, self.share, self.flaw = missing, step.coverage, step.flaw
        self.coupled |= step.coupled
        self.samples = step.seen, step.batch_size
        self.note_regularised(bool(step.regularised))

    def note_regularised(self, found: bool) -> None:
        """Say once that the loss has a part that no sample contributed."""
        if found and not self.regularised:
            log.warning(
                "the gradient has a part that no sample contributed (a regularisation term in the loss?): "
                "individual gradients leave it out, GradNorm and Loss have it"
            )
        self.regularised |= found
