"""What the tracked steps showed about the model, and what they cost: for ``explain``."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cockpit.engine.observation import Observation

log = logging.getLogger("cockpit")

MOST = 4  # reasons, of uncovered parameters and of undefined values
NAMES = 3  # of those that share a reason
REGULARISED = (
    "the gradient has a part that no sample contributed, a regularisation term in the loss: "
    "GradNorm and Loss include it, individual gradients do not"
)
UNSTEPPED = "passes follow each other and the watched optimizer never steps: watch the one whose step() is called"


@dataclass
class Coverage:
    """What the last tracked steps showed."""

    uncovered: dict[str, str] = field(default_factory=dict)
    share: float = 1.0  # of all parameter elements that have individual gradients
    flaw: str | None = None  # why the last step had no individual gradients at all
    coupled: bool = False
    found: str = ""  # how many samples the last step had, and where
    samples: tuple[int, int] = (0, 0)  # whose individual gradients the last step took, and its batch
    estimated: bool = False  # the Gauss-Newton diagonal, because exact columns were too many
    accumulation: int = 1
    said: set[str] = field(default_factory=set)  # once
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def book(self, name: str, seconds: float, times: int = 1) -> None:
        """Add to what a part has cost."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.counts[name] = self.counts.get(name, 0) + times

    def note(self, step: Observation) -> None:
        """Look at a step; what is new and matters is said."""
        missing = step.uncovered
        for line in by_reason({name: why for name, why in missing.items() if name not in self.uncovered}):
            log.warning("left out of individual gradients: %s", line)
        self.uncovered, self.share, self.flaw = missing, step.coverage, step.flaw
        self.coupled |= step.coupled
        self.estimated = any(found.curvature.estimated for found in step.passes)
        self.samples, self.found = (step.seen, step.batch_size), "; ".join(dict.fromkeys(p.where for p in step.passes))
        if step.regularised:
            self.say(REGULARISED)

    def say(self, said: str) -> None:
        """Say something once."""
        if said not in self.said:
            self.said.add(said)
            log.warning(said)


def by_reason(whys: Mapping[str, str]) -> Iterator[str]:
    """Names that share a reason, in one line."""
    shared: dict[str, list[str]] = {}
    for name, why in sorted(whys.items()):
        shared.setdefault(why, []).append(name)
    for why, names in list(shared.items())[:MOST]:
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        yield f"{', '.join(names[:NAMES])}{more}: {why}"
    if len(shared) > MOST:
        yield f"and {sum(map(len, list(shared.values())[MOST:]))} more, for other reasons"
