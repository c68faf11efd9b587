"""What a step of an optimizer costs: its training time as a multiple of that of SGD."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from cockpit.bench.optimizers import Choice, choose
from cockpit.bench.runner import train_seconds
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place


@dataclass(frozen=True, slots=True)
class Runtime:
    """Training times of an optimizer and of the one it is held against, run by run."""

    ratio_mean: float
    ratio_std: float  # of the population, as everywhere in the benchmark
    seconds: list[float]
    seconds_sgd: list[float]


def compare(optimizer: Choice, against: Choice, train: Callable[[Choice], float], runs: int = 5) -> Runtime:
    """Train with both in turn; ``train`` returns the seconds of a run.

    A first run of each is not counted: it pays for what is loaded or compiled once. Who begins changes from pair to
    pair, so that a machine that slows down or speeds up favours neither.
    """
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 1:
        raise CockpitError(f"runs is {runs!r}; give a whole number, 1 or more")
    train(against)
    train(optimizer)
    pairs = []
    for run in range(runs):
        order = (against, optimizer) if run % 2 == 0 else (optimizer, against)
        times = [train(choice) for choice in order]
        pairs.append(times if run % 2 == 0 else times[::-1])
    if min(min(pair) for pair in pairs) <= 0:
        raise CockpitError("a run took no time; train for more epochs")
    ratios = [new / base for base, new in pairs]
    mean, deviation = statistics.fmean(ratios), statistics.pstdev(ratios)
    return Runtime(mean, deviation, [new for _, new in pairs], [base for base, _ in pairs])


def estimate(
    optimizer: Choice,
    *,
    problem: str = "mnist_mlp",
    epochs: int = 3,
    runs: int = 5,
    batch_size: int = 128,
    against: Choice | None = None,
    place: Place | None = None,
    device: torch.device | str | None = None,
    train: Callable[[Choice], float] | None = None,
) -> Runtime:
    """Time the training of a problem, nothing else, with an optimizer and with another: SGD unless told otherwise.

    Args:
        optimizer: What is judged.
        problem: Its name.
        epochs: Of each run.
        runs: Of each of the two, besides one that is not counted.
        batch_size: Of the training.
        against: What the optimizer is held against.
        place: Where the data are.
        device: Otherwise a GPU if there is one.
        train: What to time instead: trains with a choice and returns the seconds.
    """

    def train_problem(choice: Choice) -> float:
        return train_seconds(problem, choice, epochs, batch_size, place, device)

    return compare(optimizer, against or choose("SGD"), train or train_problem, runs)
