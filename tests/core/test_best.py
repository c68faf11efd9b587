"""Which value of a metric is the best one."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from cockpit.core.best import best, falls
from cockpit.core.source import Series


@pytest.mark.parametrize("name", ["Loss", "val_loss", "top1_error", "test/ppl", "perplexity", "rmse", "val-WER", "err"])
def test_less_is_better(name: str) -> None:
    assert falls(name)


@pytest.mark.parametrize("name", ["accuracy", "val_acc", "f1", "bleu", "reward", "tokens_per_second", "auc", "maer"])
def test_more_is_better(name: str) -> None:
    assert not falls(name)


def test_the_best_finite_value_and_its_step() -> None:
    series = Series(np.array([0, 10, 20, 30]), np.array([0.5, 0.9, 0.2, nan]))
    assert best("accuracy", series) == (10, 0.9)
    assert best("val_loss", series) == (20, 0.2)
    assert best("loss", Series(np.array([0]), np.array([nan]))) is None
