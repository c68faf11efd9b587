"""The contract of a problem: a value that says what to train on what, and how it is judged."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from cockpit.core.errors import CockpitError

Batch = tuple[Any, Any]  # inputs and targets, as the model and the losses take them


@dataclass(frozen=True, slots=True)
class Variant:
    """How a problem is set up. The defaults are ours; everything else is what older versions did, by choice or not."""

    validation: bool = True  # False: nothing is held out, all training data are trained on (DeepOBS 1.1)
    order: str = "fresh"  # of mini-batches; "fixed": the same in every epoch (all TensorFlow versions); "study": theirs
    hessian: int = 0  # quadratic_deep: which matrix the k-th problem made in one process got
    label_leak: bool = False  # cifar100: images begin one byte early, their first pixel is the label
    held_out: bool = True  # False: the validation set of CIFAR-10 and SVHN is redrawn in every epoch, and trained on
    shuffled_eval: bool = False  # True: train-eval begins the seed's shuffled, augmented stream (all older versions)
    cut: bool = False  # True: SVHN ends after 64,000 images for training (DeepOBS 1.1)
    whole_eval: bool = False  # True: train-eval of tolstoi_char_rnn is all of the training text (DeepOBS 1.1)


class Batches(Protocol):
    """A split of the data."""

    def __len__(self) -> int:
        """Number of samples."""

    def steps(self, batch_size: int) -> int:
        """Number of complete batches; the rest is left out."""

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """All complete batches: in order, or shuffled and augmented by a generator (on the CPU).

        ``shuffle`` draws the order in its place: it is given where the order is to be the same in every epoch, which
        the augmentation must not be.
        """

    def to(self, device: torch.device | str) -> "Batches":
        """Return the data on another device, if they fit."""


@dataclass(frozen=True, slots=True)
class Splits:
    """The data of a problem."""

    train: Batches
    train_eval: Batches  # what the training loss is judged on
    valid: Batches | None
    test: Batches


@dataclass(frozen=True, slots=True)
class Place:
    """Where files of data are, and whether missing ones may be downloaded."""

    folder: Path
    download: bool = True


def kernels(model: nn.Module) -> list[nn.Parameter]:
    """Weights of convolutions and linear layers: what an L2 term covers; no bias, no scale."""
    kinds = (nn.Linear, nn.modules.conv._ConvNd)
    return [cast(nn.Parameter, module.weight) for module in model.modules() if isinstance(module, kinds)]


@dataclass(frozen=True, slots=True)
class Problem:
    """A model, data and individual losses; everything follows from seeds, the global random state is never touched."""

    name: str
    summary: str  # one line: model and data
    model: Callable[[int], nn.Module]  # seed -> model
    data: Callable[[Place, Variant], Splits]
    losses: Callable[[Any, Any], Tensor]  # outputs, targets -> [N]
    accuracies: Callable[[Any, Any], Tensor] | None = None  # outputs, targets -> [N], between 0 and 1
    batch_size: int | None = None  # None: must be given
    epochs: int | None = None
    l2: float = (
        0.0  # the term l2 / 2 * sum of squares of what ``regularised`` names belongs to the loss, in every split
    )
    regularised: Callable[[nn.Module], list[nn.Parameter]] = kernels
    target: float | None = None  # convergence performance: test accuracy to reach, or test loss
    begin: Callable[[nn.Module], None] | None = None  # called when a phase (training, an evaluation) begins
    paper: str | None = None  # its number in the published benchmark: "P3"
    version: int = 1  # counts up when its numbers change: results of two versions are never taken for the same

    @property
    def metric(self) -> str:
        """What it is judged by: ``"accuracy"`` where there is one, else ``"loss"``."""
        return "loss" if self.accuracies is None else "accuracy"

    def regularisation(self, model: nn.Module) -> Tensor | float:
        """The L2 term."""
        if not self.l2:
            return 0.0
        squares = [weight.square().sum() for weight in self.regularised(model)]
        if not squares:
            raise CockpitError(f"{self.name} has no weights for an L2 term, but l2 is {self.l2:g}; leave it out")
        return self.l2 / 2 * torch.stack(squares).sum()
