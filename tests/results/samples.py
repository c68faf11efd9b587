"""Made-up results, and where the published runs are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cockpit.results.deepobs import baseline_tables
from cockpit.results.result import Result

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "published"


def made(
    optimizer: str = "SGD",
    losses: Sequence[float] = (2.0, 1.0, 0.5),
    accuracies: Sequence[float] | None = None,
    *,
    seed: int = 42,
    lr: float = 0.1,
    problem: str = "fmnist_2c2d",
    **changes: Any,
) -> Result:
    """A run with these curves on the test and the training set."""
    curves = {"test_loss": list(losses), "train_loss": list(losses)}
    if accuracies is not None:
        curves |= {"test_accuracy": list(accuracies), "train_accuracy": list(accuracies)}
    settings = {"hyperparameters": {"lr": lr}, "batch_size": 128, "epochs": 2, **changes}
    return Result(problem=problem, optimizer=optimizer, seed=seed, curves=curves, **settings)


def several(
    optimizers: Sequence[str] = ("Adam", "SGD"), seeds: int = 3, rates: Sequence[float] = (0.1,)
) -> list[Result]:
    """Runs of ten epochs, all a little different."""
    found = []
    for place, optimizer in enumerate(optimizers):
        for seed in range(42, 42 + seeds):
            for rate in rates:
                shift = 0.01 * place + 0.001 * (seed - 42) + 0.01 * rate
                good = [0.1, *(0.9 - 0.3 * math.exp(-epoch / 3) - shift for epoch in range(1, 11))]
                run = made(optimizer, [3 * (1 - value) for value in good], good, seed=seed, lr=rate, epochs=10)
                found.append(run)
    return found


@cache
def baselines() -> list[Result]:
    """The runs behind table 5.2; they are not part of the package, so a test without them is skipped."""
    runs = PUBLISHED / "deepobs_baseline_runs.csv.gz"
    if not runs.is_file():
        pytest.skip(f"the authors' baseline runs are not there: {runs}")
    return baseline_tables(runs, PUBLISHED / "deepobs_baseline_curves.csv.gz")
