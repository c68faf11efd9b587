"""Ways to initialise weights; models are built inside ``seeded``, so the global random state stays as it is."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Initializer = Callable[[Tensor], Tensor]  # fills a weight in place

CUT = 2.0  # standard deviations at which a normal distribution is truncated
SHRINKS = 0.87962566103423978  # standard deviation of a standard normal distribution truncated there
LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from a seed, then give the random state back; the generators of other devices are not touched."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def truncated_normal(std: float) -> Initializer:
    """A normal distribution whose draws beyond two of its standard deviations are drawn again."""

    def fill(weight: Tensor) -> Tensor:
        return nn.init.trunc_normal_(weight, std=std, a=-CUT * std, b=CUT * std)

    return fill


def glorot_uniform(weight: Tensor) -> Tensor:
    """Uniform with variance 2 / (fan in + fan out) (Glorot and Bengio, 2010)."""
    return nn.init.xavier_uniform_(weight)


def glorot_normal(weight: Tensor) -> Tensor:
    """Truncated normal with variance 2 / (fan in + fan out) after the cut, as TensorFlow draws it."""
    fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(weight)
    return truncated_normal(math.sqrt(2 / (fan_in + fan_out)) / SHRINKS)(weight)


def initialise(model: nn.Module, weight: Initializer, bias: float = 0.0, dense: Initializer | None = None) -> None:
    """Fill the weights of convolutions and linear layers (``dense``, if these differ) and set every bias."""
    for module in model.modules():
        if isinstance(module, LAYERS):
            (dense if dense and isinstance(module, nn.Linear) else weight)(module.weight)
            if module.bias is not None:
                nn.init.constant_(module.bias, bias)
