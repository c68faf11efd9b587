"""Inception-v3, counted layer by layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cockpit.problems.imagenet_inception_v3 import imagenet_inception_v3
from cockpit.problems.nets.inception_v3 import accuracies, losses

Layers = list[tuple[int, int, int]]  # inputs, outputs, positions of the kernel

STEM = [(3, 32, 9), (32, 32, 9), (32, 64, 9), (64, 80, 1), (80, 192, 9)]
GRID_A = [(288, 384, 9), (288, 64, 1), (64, 96, 9), (96, 96, 9)]
GRID_B = [(768, 192, 1), (192, 192, 7), (192, 192, 7), (192, 192, 9), (768, 192, 1), (192, 320, 9)]
HEAD = [(768, 128, 1), (128, 768, 25)]


def a(inputs: int, pool: int) -> Layers:
    branches = [(inputs, 64, 1), (inputs, 48, 1), (48, 64, 25), (inputs, 64, 1), (64, 96, 9), (96, 96, 9)]
    return [*branches, (inputs, pool, 1)]


def b(inner: int) -> Layers:
    short = [(768, inner, 1), (inner, inner, 7), (inner, 192, 7)]
    long = [(768, inner, 1), (inner, inner, 7), (inner, inner, 7), (inner, inner, 7), (inner, 192, 7)]
    return [(768, 192, 1), *short, *long, (768, 192, 1)]


def c(inputs: int) -> Layers:
    fork = [(384, 384, 3), (384, 384, 3)]
    return [(inputs, 320, 1), (inputs, 384, 1), *fork, (inputs, 448, 1), (448, 384, 9), *fork, (inputs, 192, 1)]


LAYERS = [
    *STEM,
    *(layer for block in (a(192, 32), a(256, 64), a(288, 64)) for layer in block),
    *GRID_A,
    *(layer for inner in (128, 160, 160, 192) for layer in b(inner)),
    *HEAD,
    *GRID_B,
    *c(1280),
    *c(2048),
]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    with torch.device("meta"):
        return imagenet_inception_v3.model(0)


def test_parameters(model: nn.Module) -> None:
    convolutions = sum(inputs * outputs * positions for inputs, outputs, positions in LAYERS)
    norms = sum(2 * outputs for _, outputs, _ in LAYERS)
    dense = (768 + 1) * 1001 + (2048 + 1) * 1001
    assert sum(parameter.numel() for parameter in model.parameters()) == convolutions + norms + dense
    found = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    shapes = sorted((conv.in_channels, conv.out_channels, conv.weight[0, 0].numel()) for conv in found)
    assert shapes == sorted(LAYERS)
    assert len(imagenet_inception_v3.regularised(model)) == len(LAYERS) == 96


def test_both_heads_in_training_one_in_evaluation(model: nn.Module) -> None:
    with torch.device("meta"):
        images = torch.empty(2, 3, 299, 299)
    main, auxiliary = model.train()(images)
    assert (main.shape, auxiliary.shape) == ((2, 1001), (2, 1001))
    assert model.eval()(images).shape == (2, 1001)


def test_sizes_on_the_way(model: nn.Module) -> None:
    found: list[tuple[int, ...]] = []
    parts = [*model.early, *model.middle, *model.late]  # type: ignore[misc]
    hooks = [part.register_forward_hook(lambda m, i, out: found.append(tuple(out.shape[1:3]))) for part in parts]
    with torch.device("meta"):
        model.eval()(torch.empty(1, 3, 299, 299))
    for hook in hooks:
        hook.remove()
    early = [(192, 35), (256, 35), (288, 35), (288, 35), (768, 17)]
    assert found == [*early, *[(768, 17)] * 4, (1280, 8), (2048, 8), (2048, 8)]


def test_running_averages_and_dropout(model: nn.Module) -> None:
    norms = {(m.momentum, m.eps) for m in model.modules() if isinstance(m, nn.BatchNorm2d)}
    assert norms == {(0.0003, 0.001)}, "running averages keep 0.9997 of what they were"
    assert [m.p for m in model.modules() if isinstance(m, nn.Dropout)] == [0.8]


def smoothed(logits: Tensor, label: int) -> float:
    """Cross entropy with nine tenths on the label and one tenth spread over all classes."""
    truth = torch.full_like(logits, 0.1 / len(logits))
    truth[label] += 0.9
    return float(-(truth * logits.log_softmax(0)).sum())


def test_losses_of_both_heads_and_of_one() -> None:
    torch.manual_seed(0)
    main, auxiliary, targets = torch.randn(3, 1001), torch.randn(3, 1001), torch.tensor([0, 5, 1000])
    one = [smoothed(main[n], int(targets[n])) for n in range(3)]
    both = [one[n] + 0.4 * smoothed(auxiliary[n], int(targets[n])) for n in range(3)]
    assert losses(main, targets).tolist() == pytest.approx(one, rel=1e-5)
    assert losses((main, auxiliary), targets).tolist() == pytest.approx(both, rel=1e-5)
    right = main.argmax(1)
    assert accuracies((main, auxiliary), right).tolist() == accuracies(main, right).tolist() == [1.0] * 3
