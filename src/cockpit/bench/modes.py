"""Optimizers that are judged elsewhere than where gradients are taken: they have ``train()`` and ``eval()``."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.optim import Optimizer


def has(optimizer: Optimizer) -> bool:
    """Whether an optimizer has both."""
    return all(callable(getattr(optimizer, name, None)) for name in ("train", "eval"))


def begin(optimizer: Optimizer) -> None:
    """Bring parameters to where they are trained."""
    if has(optimizer):
        optimizer.train()  # type: ignore[attr-defined]


@contextmanager
def judging(optimizer: Optimizer) -> Iterator[None]:
    """Bring parameters to where they are judged, and back."""
    if not has(optimizer):
        yield
        return
    optimizer.eval()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        optimizer.train()  # type: ignore[attr-defined]
