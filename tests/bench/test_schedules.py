from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from cockpit.bench.schedules import factors, label, schedule
from cockpit.core.errors import CockpitError


def test_constant() -> None:
    assert factors("constant", 3) == [1, 1, 1]


def test_cosine() -> None:
    assert factors("cosine", 4) == pytest.approx([1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)])


def test_cosine_begins_again_after_10_30_70_150_epochs() -> None:
    found = factors("cosine_wr", 200)
    assert [epoch for epoch, factor in enumerate(found) if factor == 1] == [0, 10, 30, 70, 150]
    assert found[20] == pytest.approx(0.5)  # in the middle of 20 epochs
    assert found[69] == pytest.approx(0.5 * (1 + math.cos(math.pi * 39 / 40)))


def test_trapezoid_as_published() -> None:
    found = factors("ltr", 100)
    assert found[0] == 1  # an epoch at the full rate comes before the rise
    assert found[1:11] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])
    assert set(found[10:91]) == {1}
    assert found[91:] == pytest.approx([count / 11 for count in range(10, 1, -1)])


def test_trapezoid() -> None:
    found = factors("trapezoidal", 100)
    assert found[:10] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])
    assert found[10:] == factors("ltr", 100)[10:]


@pytest.mark.parametrize("epochs", [1, 2, 5, 7, 25, 50, 160, 350])
def test_trapezoids_of_any_length(epochs: int) -> None:
    rise = epochs / 10
    published = [
        1 if epoch == 0 else epoch / rise if epoch <= rise else min(1, 1 - (epoch - epochs + rise) / (rise + 1))
        for epoch in range(epochs)
    ]
    assert factors("ltr", epochs) == pytest.approx(published)
    assert all(0 < factor <= 1 for factor in factors("trapezoidal", epochs))


def test_steps_multiply() -> None:
    found = factors("0.1@80,120", 160)
    assert set(found[:80]) == {1}
    assert found[80:120] == pytest.approx([0.1] * 40)
    assert found[120:] == pytest.approx([0.01] * 40)
    assert factors("0.5@1,0.1@2,3", 5) == pytest.approx([1, 0.5, 0.05, 0.005, 0.005])
    assert factors("0.1@80", 3) == [1, 1, 1]


def test_a_function_is_a_schedule() -> None:
    def falling(epoch: int) -> float:
        return 1 / (1 + epoch)

    assert factors(falling, 3) == [1, 1 / 2, 1 / 3]
    assert schedule(falling, 3)(9) == 0.1
    assert label(falling) == "falling"
    assert label("0.1@80,120") == "0.1@80,120"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("cosin", "unknown schedule 'cosin'; did you mean 'cosine'"),
        (0.5, "unknown schedule 0.5"),
        ("@", "'@' is not factor@epoch"),
        ("0.1@", "'0.1@' is not factor@epoch"),
        ("80,0.1@120", "'80' is not factor@epoch"),
        ("0.1@80,", "'' is not factor@epoch"),
        ("x@80", "is not factor@epoch"),
        ("-1@80", "is not factor@epoch"),
        ("nan@80", "is not factor@epoch"),
        ("0.1@-3", "is not factor@epoch"),
        ("0.1@1.5", "is not factor@epoch"),
        (lambda epoch: "half", "the schedule gives 'half' in epoch 0"),
        (lambda epoch: -1.0, "the schedule gives -1.0 in epoch 0"),
        (lambda epoch: math.nan, "the schedule gives nan in epoch 0"),
    ],
)
def test_wrong_input(chosen: Any, message: str) -> None:
    with pytest.raises(CockpitError, match=message):
        factors(chosen, 200)


@pytest.mark.parametrize("epochs", [-1, 1.5, True])
def test_wrong_epochs(epochs: Any) -> None:
    with pytest.raises(CockpitError, match="epochs is"):
        schedule("cosine", epochs)


@pytest.mark.parametrize("epochs", [4, 10, 37, 100])
def test_one_cycle_is_torchs(epochs: int) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=epochs, cycle_momentum=False)
    expected = []
    for epoch in range(epochs):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if epoch + 1 < epochs:
            scheduler.step()
    assert factors("one_cycle", epochs) == pytest.approx(expected, abs=1e-12)


def test_straight_lines() -> None:
    assert factors("linear", 4) == [1.0, 0.75, 0.5, 0.25]
    assert factors("wsd", 20) == pytest.approx([0.5, *[1.0] * 16, 0.75, 0.5, 0.25])
    for name in ("linear", "wsd", "one_cycle"):
        for epochs in (1, 2, 3, 7):
            assert all(0 < factor <= 1 for factor in factors(name, epochs))
