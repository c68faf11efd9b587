"""Where the randomness of a run comes from: all of it follows from the seed, in a stream for each purpose."""

import numpy as np
import torch

from cockpit.core.errors import CockpitError, unknown

ORDERS = ("fresh", "fixed", "study")  # of mini-batches: another in each epoch, the same in all, or as published
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
    """What ``Batches.epoch`` draws from: a fixed order is that of epoch 0, under an augmentation that still changes.

    The study's follows from the run's own seed.
    """
    if order not in ORDERS:
        raise unknown("order of mini-batches", order, ORDERS)
    own = epoch_generator(seed, epoch)
    return (own,) if order == "fresh" else (own, _first(seed, order))


def train_eval_generator(seed: int, order: str, shuffled: bool) -> torch.Generator | None:
    """What train-eval is drawn from: the stream of epoch 0 where it is shuffled, always in the study's order."""
    return _first(seed, order) if shuffled or order == "study" else None


def _first(seed: int, order: str) -> torch.Generator:
    return torch.Generator().manual_seed(seed) if order == "study" else epoch_generator(seed, 0)


def global_seed(seed: int, epoch: int) -> int:
    """The seed of torch's global random state while an epoch is trained: dropout and other noise inside a model."""
    return _mixed(_GLOBAL, seed, epoch)
