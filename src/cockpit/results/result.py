"""One benchmark run: what was trained, and how well after each epoch."""

from dataclasses import dataclass, field
from typing import Any

METRICS = tuple(f"{split}_{kind}" for split in ("train", "valid", "test") for kind in ("loss", "accuracy"))


@dataclass(frozen=True, slots=True)
class Result:
    """A run of one optimizer on one problem with one seed."""

    problem: str
    optimizer: str  # "SGD", "Momentum", "Adam", ...
    hyperparameters: dict[str, Any]  # always with "lr"
    seed: int
    batch_size: int
    epochs: int  # planned
    curves: dict[str, list[float]]  # by metric (METRICS): after 0, 1, 2 ... epochs, as far as it got
    schedule: str = "constant"
    variant: dict[str, Any] = field(default_factory=dict)  # where it differs from the problem's own
    batch_losses: list[float] = field(default_factory=list)  # logged mini-batch losses, before the update
    log_interval: int | None = None  # steps from one of them to the next, within each epoch
    diverged: int | None = None  # the epoch in which the loss stopped being finite
    seconds: list[float] = field(default_factory=list)  # training time of each epoch; of runs in step their share
    source: str = "cockpit"  # or "deepobs 1.1", "deepobs 1.2", ...
    complete: bool = True
    code: str | None = None  # a mark of the optimizer's code, where that is the user's own
    rule: int | None = None  # the version of the optimizer's rule, where that is one of cockpit.optimizers
    problem_code: str | None = None  # the same of the problem
    target: float | None = None  # convergence performance: what the test metric is to reach

    @property
    def metric(self) -> str:
        """The curve it is judged by."""
        return "test_accuracy" if self.curves.get("test_accuracy") else "test_loss"
