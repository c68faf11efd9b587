"""What one row of the table is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .data import Batch
from .losses import Loss, cross_entropy
from .styles import LOOPS, Loop


class Setup(NamedTuple):
    """Fresh objects of a case, ready for `case.style.run(*setup, on_step)`."""

    model: nn.Module
    optimizer: Any
    loss_fn: Callable[..., Tensor]
    batches: list[Batch]


def sgd(lr: float = 0.1, **options: Any) -> Callable[[nn.Module], torch.optim.Optimizer]:
    """An optimizer factory: stochastic gradient descent."""
    return lambda model: torch.optim.SGD(model.parameters(), lr=lr, **options)


@dataclass(frozen=True, eq=False)
class Case:
    """A model, an optimizer, a loss, data and a training loop, all seeded.

    `expected_undefined` names quantities that may have no value here, with a word that the reason
    contains. `loose` gives single quantities a tolerance of their own (inf: rounding decides the
    value, do not compare). `uncovered` are parameters that a tool may leave out if it says so.
    """

    name: str
    model: Callable[[], nn.Module]
    batches: Callable[[], list[Batch]]
    loss: Loss = field(default_factory=cross_entropy)
    optimizer: Callable[[nn.Module], Any] = field(default_factory=sgd)
    loop: str = "plain"  # a name in LOOPS
    dtype: torch.dtype = torch.float64
    double_data: bool = False  # data are given with all their digits
    tolerance: float = 1e-7
    expected_undefined: dict[str, str] = field(default_factory=dict)
    loose: dict[str, float] = field(default_factory=dict)
    uncovered: tuple[str, ...] = ()
    batch_axis: int = 0  # of every tensor among the model's arguments
    target_axis: int = 0
    coupled: bool = False  # samples meet inside the model: BatchNorm in training mode
    gives_loss: bool = True  # False: the tool is not told the loss function
    may_refuse: bool = False  # a clear error from the tool is also a right answer
    wrap: Callable[[nn.Module], nn.Module] | None = None  # torch.compile and the like
    twin: Callable[[], nn.Module] | None = None  # same function, can be differentiated twice
    split: Callable[[Batch, int], Batch] | None = None  # one sample, where slicing is not enough

    @property
    def style(self) -> Loop:
        """The training loop and what it means."""
        return LOOPS[self.loop]

    def build(self) -> Setup:
        """Fresh model, optimizer (or list), loss function and batches, always the same ones."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = self.model().to(self.dtype)
        wrapped = model if self.wrap is None else self.wrap(model)
        loss_fn = self.loss.make()
        if isinstance(loss_fn, nn.Module):
            loss_fn = loss_fn.to(self.dtype)
        batches = [cast(batch, self.dtype) for batch in self.rounded()]
        return Setup(wrapped, self.optimizer(model), loss_fn, batches)

    def rounded(self) -> list[Batch]:
        """The batches: numbers that single precision can hold, so that a case has the same ones in both."""
        return [batch if self.double_data else cast(batch, torch.float32) for batch in self.batches()]

    def size(self, batch: Batch) -> int:
        """Number of samples in a batch."""
        return batch.target.shape[self.target_axis]

    def take(self, batch: Batch, n: int) -> Batch:
        """Sample n alone, as a batch of one."""
        if self.split is not None:
            return self.split(batch, n)
        args = _map(lambda t: t.narrow(self.batch_axis, n, 1), batch.args)
        return Batch(args, batch.target.narrow(self.target_axis, n, 1))


def cast(batch: Batch, dtype: torch.dtype) -> Batch:
    """The batch with its floating-point tensors in another precision."""

    def convert(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return Batch(_map(convert, batch.args), convert(batch.target))


def _map(change: Callable[[Tensor], Tensor], args: Any) -> Any:
    if isinstance(args, dict):
        return {key: change(value) for key, value in args.items()}
    return tuple(change(value) if isinstance(value, Tensor) else value for value in args)
