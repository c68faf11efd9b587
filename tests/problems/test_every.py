"""What holds for every problem, tried on small made-up data in the official formats."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from cockpit.problems import get, names
from cockpit.problems._base import Batch, Place, Problem, Variant
from cockpit.problems.data.sample import WRITERS, write_sample

SLOW = ("vgg16", "vgg19", "inception_v3", "wrn404", "resnet18")
NAMES = [name for name in names() if not name.endswith(SLOW)]
NOISY = ("mnist_vae", "fmnist_vae")  # they draw their code in evaluation too
RATES = {"two_d_beale": 1e-7, "two_d_rosenbrock": 1e-4, "two_d_branin": 1e-3, "tolstoi_char_rnn": 1.0}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("data")
    for dataset in WRITERS:
        if dataset != "imagenet":
            write_sample(dataset, folder, samples=64)
    return Place(folder, download=False)


def first(problem: Problem, place: Place, samples: int = 4) -> Batch:
    return next(iter(problem.data(place, Variant()).train.epoch(samples, torch.Generator().manual_seed(0))))


def losses(problem: Problem, model: nn.Module, batch: Batch, seed: int = 0) -> Any:
    """Individual losses at the beginning of a phase, whatever is drawn inside by a seed."""
    if problem.begin is not None:
        problem.begin(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return problem.losses(model(batch[0]), batch[1])


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_individual_and_evaluation_repeats(name: str, place: Place) -> None:
    problem = get(name)
    batch, model = first(problem, place), problem.model(0).eval()
    with torch.no_grad():
        found = losses(problem, model, batch)
        assert found.shape == (4,)
        assert found.isfinite().all()
        if problem.accuracies is not None:
            assert problem.accuracies(model(batch[0]), batch[1]).shape == (4,)
        assert torch.equal(losses(problem, model, batch, seed=1), found) == (name not in NOISY)
        if name not in NOISY:  # a sample's loss does not depend on the others
            alone = [losses(problem, model, (batch[0][n : n + 1], batch[1][n : n + 1])) for n in range(4)]
            torch.testing.assert_close(torch.cat(alone), found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_problem_and_model_can_be_pickled_and_copied(name: str, place: Place) -> None:
    problem = pickle.loads(pickle.dumps(get(name)))
    batch, model = first(problem, place, 2), problem.model(0)
    losses(problem, model, batch)  # a state carried on travels too
    expected = losses(problem, model.eval(), batch)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), get(name).model(0)):
        other.load_state_dict(model.state_dict())
        assert torch.equal(losses(problem, other.eval(), batch), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_few_steps_on_a_batch_lower_its_loss(name: str, place: Place) -> None:
    problem = get(name)
    batch, model = first(problem, place), problem.model(0).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATES.get(name, 0.01))
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = losses(problem, model, batch).mean() + problem.regularisation(model)
        found.append(float(loss.detach()))
        loss.backward()
        optimizer.step()
    assert found[-1] < found[0]
