"""The contract of a problem: a value that says what to train on what."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.utils.data import TensorDataset


@dataclass(frozen=True, slots=True)
class Problem:
    """A model, data and individual losses; everything follows from seeds, the global random state is never touched."""

    name: str
    model: Callable[[int], nn.Module]  # seed -> model
    data: Callable[[str, int], TensorDataset]  # split ("train" or "test"), seed -> inputs and targets
    losses: Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> [N]
