"""``cockpit demo``: train a built-in problem with the live page, save a figure, sum up what was measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from cockpit.core.errors import CockpitError
from cockpit.core.source import Source, Values
from cockpit.dashboard.server import show, start
from cockpit.plots.figure import figure
from cockpit.plots.plotter import CockpitPlotter
from cockpit.problems.digits import digits, draw
from cockpit.quantities import preset
from cockpit.store.folder import choose_folder
from cockpit.tracking.attach import watch
from cockpit.tracking.watched import Watch

BATCH = 64
EVERY = 2  # steps from one tracked step to the next
EVALUATE = 50  # steps from one test of the accuracy to the next
EXTRA = ("CABS", "EarlyStopping", "MeanGSNR")  # beyond the full preset, for the second page


def demo(
    steps: int = 1500, seed: int = 0, folder: Path | None = None, page: bool = True, open_browser: bool = True
) -> None:
    """Train digits with the full preset and the live page; print and save what was measured.

    Args:
        steps: Training steps; the default takes about a minute.
        seed: Random seed.
        folder: Folder of the run; None: a new folder in ``runs``.
        page: Serve the live page while training runs.
        open_browser: Open the page in a browser.
    """
    console = Console()
    console.print(f"Training {digits.name} for {steps:,} steps, tracked every {EVERY} steps.")
    model, loss_fn = digits.model(seed), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    quantities = [*preset("full"), *EXTRA]
    with _one_thread():
        run = folder or choose_folder(None, digits.name)
        pit = watch(model, optimizer, loss_fn, quantities=quantities, every=EVERY, run=run, steps=steps)
        shown = pit.folder if folder or pit.folder is None else pit.folder.parent
        with pit, _live_page(shown if page else None, open_browser, console):
            train(model, optimizer, loss_fn, pit, steps, seed, console)
    _report(pit, console)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: nn.Module,
    pit: Watch,
    steps: int,
    seed: int,
    console: Console,
) -> None:
    """Train: the loop that a user would write, with ``pit.log`` as its only call to Cockpit."""
    batches = _batches(seed)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in track(range(steps), "training", console=console, transient=True, disable=not console.is_terminal):
        inputs, labels = next(batches)
        optimizer.zero_grad()
        loss_fn(model(inputs), labels).backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % EVALUATE == 0 or step + 1 == steps:
            pit.log(test_accuracy=_accuracy(model, seed))


@contextmanager
def _live_page(folder: Path | None, open_browser: bool, console: Console) -> Iterator[None]:
    """Serve a folder from another process, as ``cockpit ui`` does."""
    if folder is None:
        yield
        return
    try:
        server = start(folder)
    except CockpitError as missing:
        console.print(f"No live page: {missing}", markup=False, highlight=False)
        yield
        return
    console.print(f"Live page: {server.url}", markup=False, highlight=False, soft_wrap=True)
    if open_browser:
        show(server.url)
    try:
        yield
    finally:
        server.stop()


def _report(pit: Watch, console: Console) -> None:
    source = pit.source()
    CockpitPlotter().plot(pit, plot_title=digits.name)
    console.print()
    for sentence in seen(source):
        console.print(f"- {sentence}", markup=False, highlight=False, soft_wrap=True)
    if pit.folder is None:
        return
    try:
        picture = pit.folder / "deck.png"
        picture.write_bytes(figure([source], "png", title=f"{digits.name}: {pit.folder.name}"))
        console.print(f"Figure: {picture}", markup=False, highlight=False, soft_wrap=True)
    except (CockpitError, OSError) as problem:
        console.print(f"No figure: {problem}", markup=False, highlight=False)
    console.print(f"Open the page again: cockpit ui {pit.folder.parent}", markup=False, highlight=False, soft_wrap=True)


def seen(source: Source) -> list[str]:
    """Return what the instruments showed, in sentences."""
    said = []
    loss, accuracy = source.scalar("Loss").defined().values, source.scalar("test_accuracy").defined().values
    if len(loss):
        said.append(f"The loss went from {loss[0]:.3g} to {_late(loss):.3g} (median of the last tenth).")
    if len(accuracy):
        said.append(f"The net recognises {accuracy[-1]:.1%} of the test images.")
    alpha = source.scalar("Alpha").defined().values
    if len(alpha):
        late, beyond = _late(alpha), np.mean(alpha > 1)
        where = "short of" if late < 0 else "beyond"
        said.append(
            f"Steps end {where} the valley floor (median Alpha {late:+.2f} at the end); {beyond:.0%} overshoot."
        )
    sharp, rate = source.scalar("HessMaxEV").defined().values, source.scalar("learning_rate").defined().values
    if len(sharp) and len(rate):
        edge = 2 / rate[0]
        said.append(f"The sharpest curvature was {sharp.max():.3g}; plain SGD is stable up to {edge:.3g}.")
    noise, size = source.scalar("NormTest").defined().values, source.scalar("batch_size").defined().values
    if len(noise) and len(size):
        early, late = _late(noise[::-1]), _late(noise)
        said.append(f"Gradient noise went from {early:.2g} to {late:.2g} (norm test) at batch size {size[-1]:.0f}.")
    return said


def _late(values: Values) -> float:
    """Return the median of the last tenth."""
    return float(np.median(values[-max(1, len(values) // 10) :]))


def _batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    inputs, labels = draw("train", seed).tensors
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(labels), generator=generator, device="cpu")
        for begin in range(0, len(order), BATCH):
            batch = order[begin : begin + BATCH]
            yield inputs[batch], labels[batch]


@torch.no_grad()
def _accuracy(model: nn.Module, seed: int) -> float:
    inputs, labels = draw("test", seed).tensors
    return float((model(inputs).argmax(1) == labels).float().mean())


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use a single thread: for so small a model threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
