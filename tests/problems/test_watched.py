"""Problems can be watched: quantities of individual gradients are defined on each kind of model."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import cockpit
from cockpit.problems import get

# The exact curvature of TICDiag has as many columns as outputs: it takes these many seconds.
ECONOMY_ONLY = ("mnist_vae", "tolstoi_char_rnn", "tolstoi_gpt", "svhn_wrn164")
BUSINESS = (
    "two_d_branin",
    "two_d_rosenbrock",
    "quadratic_deep",
    "mnist_logreg",
    "cifar10_3c3d",
    "covertype_mlp",
    "digits",
)


def batch(name: str, generator: torch.Generator, samples: int = 4) -> tuple[Tensor, Tensor]:
    """Random inputs and targets of the shapes that a problem has."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(samples, *shape, generator=generator)

    def labels(classes: int) -> Tensor:
        return torch.randint(classes, (samples,), generator=generator)

    if name == "mnist_vae":
        images = normal(1, 28, 28).sigmoid()
        return images, images
    if name.startswith("tolstoi"):
        text = torch.randint(83, (samples, 9), generator=generator)
        return text[:, :-1], text[:, 1:]
    return {
        "two_d_branin": lambda: (normal(2), labels(1)),
        "two_d_rosenbrock": lambda: (normal(2), labels(1)),
        "quadratic_deep": lambda: (normal(100), labels(1)),
        "mnist_logreg": lambda: (normal(1, 28, 28), labels(10)),
        "cifar10_3c3d": lambda: (normal(3, 32, 32), labels(10)),
        "svhn_wrn164": lambda: (normal(3, 16, 16), labels(10)),
        "covertype_mlp": lambda: (normal(54), labels(7)),
        "digits": lambda: (normal(1, 12, 12), labels(10)),
    }[name]()


def watched(name: str, quantities: Any) -> dict[int, dict[str, Any]]:
    """What two watched steps record."""
    problem, generator = get(name), torch.Generator().manual_seed(0)
    model = problem.model(0)
    if problem.begin is not None:
        problem.begin(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    with cockpit.watch(model, optimizer, quantities=quantities, every=1, run=False) as pit:
        for _ in range(2):
            inputs, targets = batch(name, generator)
            optimizer.zero_grad()
            loss = pit.loss(problem.losses(model(inputs), targets)) + problem.regularisation(model)
            loss.backward()
            optimizer.step()
    return pit.get_output()


@pytest.mark.parametrize("name", BUSINESS)
def test_all_of_business_is_defined(name: str) -> None:
    steps = watched(name, "business")
    assert len(steps) == 2
    for step, values in steps.items():
        assert math.isfinite(values["NormTest"])
        missing = {key for key, value in values.items() if value is None}
        assert missing == ({"Alpha"} if step == 1 else set()), "the last step's Alpha needs the step after it"


@pytest.mark.parametrize("name", ECONOMY_ONLY)
def test_all_of_economy_is_defined_for_noise_inside_and_for_sequences(name: str) -> None:
    """A drawn code, dropout, and a state carried from batch to batch leave individual gradients what they are."""
    steps = watched(name, "economy")
    assert len(steps) == 2
    for step, values in steps.items():
        assert math.isfinite(values["NormTest"])
        missing = {key for key, value in values.items() if value is None}
        assert missing == ({"Alpha"} if step == 1 else set())
