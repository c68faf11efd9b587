from __future__ import annotations

import pytest
import torch
from tests.bench.tiny import Samples, problem
from torch import Tensor, nn

from cockpit.bench.evaluation import check_sizes, evaluate, evaluate_all
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Splits


def pictures(values: list[float]) -> Samples:
    return Samples(torch.tensor(values).reshape(-1, 1), torch.zeros(len(values)))


def scaled(weight: float) -> nn.Linear:
    net = nn.Linear(1, 1, bias=False)
    nn.init.constant_(net.weight, weight)
    return net


def own(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs[:, 0]


def positive(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] > 0).float()


def test_the_mean_over_complete_batches_and_the_l2_term() -> None:
    task = problem(losses=own, accuracies=positive, l2=0.5)
    found = evaluate(task, scaled(2.0), pictures([1.0, 2.0, 3.0, -4.0, 1000.0]), batch_size=2)
    assert found == {"loss": pytest.approx(2 * 2 / 4 + 0.25 * 2**2), "accuracy": 0.75}  # the fifth sample is left out


def test_only_what_is_not_held_out_is_redrawn() -> None:
    some = pictures([float(number) for number in range(11)])
    task = problem(losses=own, accuracies=None, l2=0.0)
    splits = Splits(some, some, some, some)
    plain = evaluate_all(task, scaled(1.0), splits, 10)
    drawn = evaluate_all(task, scaled(1.0), splits, 10, redraw=torch.Generator().manual_seed(0))
    assert set(plain.values()) == {4.5}
    assert (drawn["train_loss"], drawn["test_loss"]) == (4.5, 4.5)
    assert drawn["valid_loss"] != 4.5
    assert "valid_loss" not in evaluate_all(task, scaled(1.0), Splits(some, some, None, some), 10)


def test_it_leaves_no_graph_and_evaluates_in_evaluation_mode() -> None:
    modes, net = [], scaled(1.0).train()

    def looking(outputs: Tensor, targets: Tensor) -> Tensor:
        modes.append((net.training, outputs.requires_grad))
        return own(outputs, targets)

    evaluate(problem(losses=looking, accuracies=None), net, pictures([1.0, 2.0]), 1)
    assert modes == [(False, False), (False, False)]


def test_half_precision_is_averaged_in_full() -> None:
    task = problem(losses=lambda outputs, targets: own(outputs, targets).bfloat16(), accuracies=None, l2=0.0)
    values = [1.0] * 255 + [0.5]  # bfloat16 has no 255.5
    assert evaluate(task, scaled(1.0), pictures(values), 256)["loss"] == pytest.approx(255.5 / 256, abs=1e-6)


def test_a_split_without_one_complete_batch() -> None:
    some, few = pictures([1.0] * 9), pictures([1.0] * 3)
    check_sizes(Splits(some, some, None, few), 3)
    with pytest.raises(CockpitError, match="batch size 4: the test data have 3 samples"):
        check_sizes(Splits(some, some, None, few), 4)
