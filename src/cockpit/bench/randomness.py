"""The global random state: seeded inside a run, as before outside of it."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from cockpit.bench.seeds import global_seed

CPU = torch.device("cpu")
TRAINING, EVALUATION = 0, 1


@contextmanager
def unchanged(device: torch.device = CPU) -> Iterator[None]:
    """Put the global random states of torch (on the CPU and this GPU), numpy and Python back at the end."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def seed_phase(seed: int, epoch: int, phase: int, device: torch.device = CPU) -> None:
    """Seed everything global at the beginning of an epoch's training or evaluation: a continued run draws the same."""
    number = global_seed(seed, epoch) if phase == TRAINING else evaluation_seed(seed, epoch)
    torch.default_generator.manual_seed(number)  # torch.manual_seed would change every device
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def evaluation_seed(seed: int, epoch: int) -> int:
    """The seed of everything random in an evaluation, another one than in training."""
    return global_seed(global_seed(seed, epoch), EVALUATION)
