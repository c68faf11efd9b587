"""The demonstration: train an embedded problem, watched, and print what was measured."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from cockpit.attach import Watch, watch
from cockpit.plots.plotter import CockpitPlotter
from cockpit.problems._base import Problem
from cockpit.problems.digits import digits

BATCH = 64
EVERY = 2  # steps from one tracked step to the next
EVALUATE = 50  # steps from one test of the accuracy to the next


def demo(steps: int = 300, seed: int = 0) -> None:
    """Train digits for some steps with the full preset, print the deck and what the watch has to say about itself."""
    console = Console()
    console.print(f"Training the {digits.name} problem for {steps} steps, watched at one step in {EVERY}.")
    with _one_thread():
        pit = train(digits, steps, seed, console)
    CockpitPlotter().plot(pit, plot_title=digits.name)
    console.print()
    console.print(pit.explain(), markup=False, highlight=False, soft_wrap=True)


def train(problem: Problem, steps: int, seed: int, console: Console) -> Watch:
    """Train the problem and return its watch, closed."""
    model, loss_fn = problem.model(seed), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    batches = _batches(problem, seed)
    with watch(model, optimizer, loss_fn, quantities="full", every=EVERY) as pit:
        for step in track(range(steps), "training", console=console, transient=True, disable=not console.is_terminal):
            inputs, labels = next(batches)
            optimizer.zero_grad()
            loss_fn(model(inputs), labels).backward()
            optimizer.step()
            if (step + 1) % EVALUATE == 0 or step + 1 == steps:
                pit.log(accuracy=_accuracy(problem, model, seed))
    return pit


def _batches(problem: Problem, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    inputs, labels = problem.data("train", seed).tensors
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(labels), generator=generator)
        for begin in range(0, len(order), BATCH):
            batch = order[begin : begin + BATCH]
            yield inputs[batch], labels[batch]


@torch.no_grad()
def _accuracy(problem: Problem, model: nn.Module, seed: int) -> float:
    inputs, labels = problem.data("test", seed).tensors
    return float((model(inputs).argmax(1) == labels).float().mean())


@contextmanager
def _one_thread() -> Iterator[None]:
    """The model is so small that threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
