"""Where the randomness of a run comes from: all of it follows from the seed, in a stream for each purpose."""

import numpy as np
import torch

from cockpit.core.errors import CockpitError, unknown

ORDERS = ("fresh", "fixed")  # of mini-batches: another in each epoch, or the same in all of them
_ORDER, _GLOBAL = 1, 2  # which stream of a seed


def _mixed(*numbers: int) -> int:
    """One seed from several numbers; torch reads only 32 bits of it on a CPU, so those must differ."""
    for number in numbers:
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 0:
            raise CockpitError(f"a seed or an epoch is {number!r}; give a whole number, 0 or more")
    return int(np.random.SeedSequence([int(number) for number in numbers]).generate_state(1)[0])


def model_seed(seed: int) -> int:
    """The seed of the model's first parameters: the run's own, so that ``problem.model(42)`` is where run 42 begins."""
    _mixed(seed)
    return int(seed)


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The generator that orders and augments the mini-batches of an epoch."""
    return torch.Generator().manual_seed(_mixed(_ORDER, seed, epoch))


def epoch_generators(seed: int, epoch: int, order: str) -> tuple[torch.Generator, ...]:
    """What ``Batches.epoch`` draws from: a fixed order is that of epoch 0, under an augmentation that still changes."""
    if order not in ORDERS:
        raise unknown("order of mini-batches", order, ORDERS)
    own = epoch_generator(seed, epoch)
    return (own, epoch_generator(seed, 0)) if order == "fixed" else (own,)


def global_seed(seed: int, epoch: int) -> int:
    """The seed of torch's global random state while an epoch is trained: dropout and other noise inside a model."""
    return _mixed(_GLOBAL, seed, epoch)
