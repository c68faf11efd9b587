"""Mini-batches of data that are held in memory, on the device if they fit there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batch, Batches, Splits

Augment = Callable[[Tensor, torch.Generator], Tensor]
Prepare = Callable[[Tensor], Tensor]


def complete(samples: int, batch_size: int) -> int:
    """Number of complete batches."""
    if batch_size < 1:
        raise CockpitError(f"the batch size is {batch_size}; give at least 1")
    return samples // batch_size


def batched(index: Tensor, batch_size: int) -> Tensor:
    """Indices of the samples of each complete batch, [steps, batch_size]."""
    steps = complete(len(index), batch_size)
    return index[: steps * batch_size].reshape(steps, batch_size)


class Order(Protocol):
    """Which samples an epoch takes, and in which order."""

    def __len__(self) -> int:
        """Number of samples in an epoch."""

    def __call__(self, generator: torch.Generator | None, shuffle: torch.Generator | None = None) -> Tensor:
        """Indices of an epoch's samples: a fixed sequence without generator."""


@dataclass(frozen=True, slots=True)
class Shuffled:
    """Every sample once; with a generator in random order."""

    samples: int

    def __len__(self) -> int:
        """Number of samples."""
        return self.samples

    def __call__(self, generator: torch.Generator | None, shuffle: torch.Generator | None = None) -> Tensor:
        """0, 1, 2, ... or a permutation of it."""
        drawn = shuffle or generator
        return torch.arange(self.samples) if drawn is None else torch.randperm(self.samples, generator=drawn)


@dataclass(frozen=True, slots=True)
class Redrawn:
    """A split that is drawn anew in every epoch: files of records in random order, the first ``held`` are validation.

    So did the TensorFlow versions for CIFAR-10 and SVHN: even where the order was fixed, that of the files was not.
    Without a generator the files keep their order.
    """

    samples: int
    file: int  # records in a file; the last file may hold fewer
    held: int
    validation: bool

    def __len__(self) -> int:
        """Number of samples in an epoch."""
        return self.held if self.validation else self.samples - self.held

    def __call__(self, generator: torch.Generator | None, shuffle: torch.Generator | None = None) -> Tensor:
        """Validation: records of the first files, as they come. Training: the others, shuffled."""
        files = torch.arange(self.samples).split(self.file)
        drawn = range(len(files)) if generator is None else torch.randperm(len(files), generator=generator).tolist()
        records = torch.cat([files[place] for place in drawn])
        if self.validation:
            return records[: self.held]
        rest = records[self.held :]
        return rest if generator is None else rest[torch.randperm(len(rest), generator=shuffle or generator)]


class Resident:
    """Samples held in memory as they were read (bytes stay bytes); each batch is augmented and prepared when taken.

    Args:
        inputs: [N, ...].
        targets: [N, ...].
        augment: Applied to a batch of inputs when an epoch is drawn from a generator; takes its randomness from it.
        prepare: Applied to every batch, after that.
        order: Which samples make an epoch; every one once, if not given.
    """

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        augment: Augment | None = None,
        prepare: Prepare | None = None,
        order: Order | None = None,
    ) -> None:
        if len(inputs) != len(targets):
            raise CockpitError(f"{len(inputs)} inputs have {len(targets)} targets; give one target for each input")
        self.inputs, self.targets = inputs, targets
        self.augment, self.prepare = augment, prepare
        self.order = order or Shuffled(len(inputs))
        self.device = inputs.device  # of the batches
        self._copies: WeakValueDictionary[torch.device, Resident] = WeakValueDictionary()

    def __len__(self) -> int:
        """Number of samples in an epoch."""
        return len(self.order)

    def steps(self, batch_size: int) -> int:
        """Number of complete batches; the rest is left out."""
        return complete(len(self), batch_size)

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """All complete batches; order and augmentation are drawn on the CPU, so they are the same on every device."""
        for rows in batched(self.order(generator, shuffle), batch_size).to(self.inputs.device):
            inputs, targets = self._arrived(self.inputs[rows]), self._arrived(self.targets[rows])
            if generator is not None and self.augment is not None:
                inputs = self.augment(inputs, generator)
            yield inputs if self.prepare is None else self.prepare(inputs), targets

    def _arrived(self, rows: Tensor) -> Tensor:
        return rows if rows.device == self.device else rows.pin_memory().to(self.device, non_blocking=True)

    def to(self, device: torch.device | str) -> "Resident":
        """Return the data on a device; batch by batch if they exceed a third of a GPU's free memory."""
        device = torch.empty(0, device=device).device  # with its index
        if device == self.device:
            return self
        copy = self._copies.get(device)
        if copy is None:  # what shares these data shares their copy
            copy = self._copies[device] = self._moved(device)
        return copy

    def _moved(self, device: torch.device) -> "Resident":
        there = device if fits(self.inputs, self.targets, device=device) else torch.device("cpu")
        moved = Resident(self.inputs.to(there), self.targets.to(there), self.augment, self.prepare, self.order)
        moved.device = device
        return moved


def fits(*tensors: Tensor, device: torch.device) -> bool:
    """Whether tensors fill at most a third of the free memory of a GPU."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return 3 * sum(tensor.nbytes for tensor in tensors) <= free


@dataclass(frozen=True, slots=True)
class Head:
    """The first samples of an epoch of other batches: with a generator a random choice, augmented as they are."""

    batches: Batches
    samples: int

    def __len__(self) -> int:
        """Number of samples in an epoch."""
        return min(self.samples, len(self.batches))

    def steps(self, batch_size: int) -> int:
        """Number of complete batches; the rest is left out."""
        return complete(len(self), batch_size)

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """The first batches of an epoch."""
        return islice(self.batches.epoch(batch_size, generator, shuffle), self.steps(batch_size))

    def to(self, device: torch.device | str) -> "Head":
        """Return the data on another device."""
        return replace(self, batches=self.batches.to(device))


@dataclass(frozen=True, slots=True)
class Mapped:
    """Other batches, each changed when it is taken."""

    batches: Batches
    change: Callable[[Batch], Batch]

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.batches)

    def steps(self, batch_size: int) -> int:
        """Number of complete batches; the rest is left out."""
        return self.batches.steps(batch_size)

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """All complete batches, changed."""
        return map(self.change, self.batches.epoch(batch_size, generator, shuffle))

    def to(self, device: torch.device | str) -> "Mapped":
        """Return the data on another device."""
        return replace(self, batches=self.batches.to(device))


def changed(splits: Splits, change: Callable[[Batch], Batch]) -> Splits:
    """Return the splits with a change to every batch."""
    valid = None if splits.valid is None else Mapped(splits.valid, change)
    return Splits(Mapped(splits.train, change), Mapped(splits.train_eval, change), valid, Mapped(splits.test, change))


def autoencoding(splits: Splits) -> Splits:
    """Return the splits with the prepared inputs as targets."""
    return changed(splits, lambda batch: (batch[0], batch[0]))


def resized(splits: Splits, size: int) -> Splits:
    """Return the splits with prepared images resized to ``size`` × ``size``, bilinearly."""

    def resize(batch: Batch) -> Batch:
        return F.interpolate(batch[0], size=(size, size), mode="bilinear", align_corners=False), batch[1]

    return changed(splits, resize)
