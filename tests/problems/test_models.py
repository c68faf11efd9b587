"""Every model has the published number of parameters, follows from its seed and starts without an opinion."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cockpit.core.errors import CockpitError
from cockpit.problems import get, names
from cockpit.problems._base import kernels
from cockpit.problems._criteria import accuracies, convolutions, cross_entropy
from cockpit.problems.nets.vgg import vgg

PARAMETERS = {
    "two_d_beale": 2,
    "two_d_branin": 2,
    "two_d_rosenbrock": 2,
    "quadratic_deep": 100,
    "mnist_logreg": 7_850,
    "mnist_mlp": 1_336_610,
    "mnist_2c2d": 3_274_634,
    "mnist_vae": 10_151_489,
    "fmnist_logreg": 7_850,
    "fmnist_mlp": 1_336_610,
    "fmnist_2c2d": 3_274_634,
    "fmnist_vae": 10_151_489,
    "cifar10_3c3d": 895_210,
    "cifar10_vgg16": 134_301_514,
    "cifar10_vgg19": 139_611_210,
    "cifar10_resnet18": 11_173_962,
    "cifar100_3c3d": 918_340,
    "cifar100_vgg16": 134_670_244,
    "cifar100_vgg19": 139_979_940,
    "cifar100_allcnnc": 1_387_108,
    "cifar100_wrn404": 8_972_340,
    "cifar100_wrn164": 2_772_020,
    "svhn_3c3d": 895_210,
    "svhn_wrn164": 2_748_890,
    "imagenet_vgg16": 138_361_641,
    "imagenet_vgg19": 143_671_337,
    "imagenet_inception_v3": 27_164_082,  # test_inception_v3 counts it layer by layer
    "tolstoi_char_rnn": 284_499,
    "tolstoi_gpt": 10_624 + 16_384 + 4 * (512 + 49_536 + 16_512 + 66_048 + 65_664) + 256,
    "covertype_mlp": (54 * 128 + 128) + 3 * (256 + 128 * 256 + 256 + 256 * 128 + 128) + 256 + (128 * 7 + 7),
    "digits": 2_698,
}
CLASSES = {"mnist": 10, "fmnist": 10, "cifar10": 10, "cifar100": 100, "svhn": 10, "imagenet": 1001}
SIZES = {"mnist": (1, 28), "fmnist": (1, 28), "cifar10": (3, 32), "cifar100": (3, 32), "svhn": (3, 32)}
CLASSIFIERS = [
    name for name in names() if name.split("_")[0] in SIZES and not name.endswith(("vae", "vgg16", "vgg19", "wrn404"))
]
LARGE = [name for name in names() if "vgg" in name or "inception" in name]


def pictures(name: str, samples: int = 8) -> Tensor:
    """Random pictures of the size that a problem has, scaled as its data are."""
    channels, size = SIZES[name.split("_")[0]]
    shape, generator = (samples, channels, size, size), torch.Generator().manual_seed(0)
    return torch.rand(shape, generator=generator) if channels == 1 else torch.randn(shape, generator=generator)


def counted(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("name", names())
def test_number_of_trained_parameters(name: str) -> None:
    with torch.device("meta"):  # no memory, no time
        model = get(name).model(0)
    assert counted(model) == PARAMETERS[name]


@pytest.mark.parametrize("name", [name for name in names() if name not in LARGE])
def test_a_model_follows_from_its_seed_and_touches_no_random_state(name: str) -> None:
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    problem = get(name)
    first = problem.model(3)
    again = problem.model(3).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in first.state_dict().items())
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]
    assert torch.equal(before[0], after[0])
    assert before[1] == after[1]
    assert (before[2] == after[2]).all()


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_3c3d", "tolstoi_char_rnn", "tolstoi_gpt", "covertype_mlp"])
def test_another_seed_gives_another_model(name: str) -> None:
    first, other = (torch.cat([p.flatten() for p in get(name).model(seed).parameters()]) for seed in (0, 1))
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_initial_loss_is_that_of_guessing(name: str) -> None:
    problem, classes = get(name), CLASSES[name.split("_")[0]]
    model, inputs = problem.model(0).eval(), pictures(name)
    targets = torch.arange(len(inputs))
    with torch.no_grad():
        outputs = model(inputs)
        found = problem.losses(outputs, targets)
    assert outputs.shape == (len(inputs), classes)
    assert float(found.mean()) == pytest.approx(math.log(classes), rel=0.15)
    assert problem.accuracies is not None
    assert set(problem.accuracies(outputs, targets).tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("name", ["imagenet_vgg16", "cifar100_vgg19"])
def test_shapes_of_vgg(name: str) -> None:
    with torch.device("meta"):
        assert get(name).model(0)(torch.empty(2, 3, 224, 224)).shape == (2, CLASSES[name.split("_")[0]])


def test_an_unknown_depth_of_vgg_is_refused() -> None:
    with pytest.raises(CockpitError, match="a VGG of depth 17: give 16 or 19"):
        vgg(0, 17, 10)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("fmnist_2c2d", [(32, 28), (32, 14), (64, 14), (64, 7)]),
        ("cifar10_3c3d", [(64, 28), (64, 14), (96, 12), (96, 6), (128, 6), (128, 3)]),
        (
            "cifar100_allcnnc",
            [(96, 32), (96, 32), (96, 16), (192, 16), (192, 16), (192, 8), (192, 6), (192, 6), (100, 6)],
        ),
    ],
)
def test_shapes_after_convolution_and_pooling(name: str, shapes: list[tuple[int, int]]) -> None:
    found = []
    hidden = pictures(name, 1)
    for layer in get(name).model(0).eval():  # type: ignore[attr-defined]
        hidden = layer(hidden)
        if "Conv" in type(layer).__name__ or "MaxPool" in type(layer).__name__:
            found.append((hidden.shape[1], hidden.shape[2]))
    assert found == shapes


def test_shapes_of_a_wide_residual_network() -> None:
    hidden, found = pictures("svhn_wrn164", 1), []
    for layer in get("svhn_wrn164").model(0).eval():  # type: ignore[attr-defined]
        hidden = layer(hidden)
        found.append(tuple(hidden.shape[1:3]))
    assert found[:8] == [(16, 32), (64, 32), (64, 32), (128, 16), (128, 16), (256, 8), (256, 8), (256, 8)]


def test_a_residual_unit_adds_to_its_untouched_input() -> None:
    model = get("svhn_wrn164").model(0).eval()
    first, second = model[1], model[2]  # type: ignore[index]
    hidden = torch.randn(1, 64, 4, 4)
    nn.init.zeros_(second.residual[3].weight)
    assert torch.equal(second(hidden), hidden)
    nn.init.zeros_(first.residual[3].weight)
    inputs = torch.randn(1, 16, 4, 4)
    assert torch.allclose(first(inputs), first.shortcut(first.activation(inputs)))


def test_normalisation_keeps_nine_tenths_of_its_running_averages() -> None:
    norms = [module for module in get("svhn_wrn164").model(0).modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 13
    assert {(norm.momentum, norm.eps) for norm in norms} == {(0.1, 1e-5)}


def test_dropout_of_all_cnn_c_and_vgg() -> None:
    def rates(name: str) -> list[float]:
        with torch.device("meta"):
            return [module.p for module in get(name).model(0).modules() if isinstance(module, nn.Dropout)]

    assert rates("cifar100_allcnnc") == [0.2, 0.5, 0.5]
    assert rates("cifar10_vgg16") == [0.5, 0.5]


@pytest.mark.parametrize(
    ("name", "weight", "bias"), [("mnist_logreg", 0, 0), ("mnist_mlp", 0.06, 0), ("fmnist_2c2d", 0.1, 0.05)]
)
def test_bounds_of_initial_weights(name: str, weight: float, bias: float) -> None:
    for key, parameter in get(name).model(0).named_parameters():
        if key.endswith("bias"):
            assert parameter.unique().tolist() == pytest.approx([bias])
        else:
            assert 0.95 * weight <= float(parameter.detach().abs().max()) <= weight * (1 + 1e-6)


# ---- the L2 term


@pytest.mark.parametrize("name", [name for name in names() if get(name).l2 and name not in LARGE])
def test_the_l2_term_is_half_the_factor_times_all_squared_kernels(name: str) -> None:
    problem = get(name)
    model = problem.model(0)
    squares = sum(
        float(p.detach().double().square().sum()) for p in model.parameters() if p.dim() > 1
    )  # neither bias nor scale
    term = problem.regularisation(model)
    assert isinstance(term, Tensor)
    assert term.requires_grad
    assert term.item() == pytest.approx(problem.l2 / 2 * squares, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("cifar10_3c3d", 3.5732, 3.6338), ("cifar100_allcnnc", 4.923, 4.9318), ("svhn_wrn164", 2.7689, 2.8211)],
)
def test_guessing_plus_the_l2_term_is_where_published_runs_began(name: str, least: float, most: float) -> None:
    """Initial test losses of 135 runs each, DeepOBS 1.1."""
    problem = get(name)
    term = problem.regularisation(problem.model(0))
    assert isinstance(term, Tensor)
    assert least - 0.02 < math.log(CLASSES[name.split("_")[0]]) + term.item() < most + 0.02


@pytest.mark.parametrize(("name", "l2"), [("cifar10_3c3d", 0.002), ("cifar100_wrn404", 5e-4), ("mnist_mlp", 0.0)])
def test_factors(name: str, l2: float) -> None:
    assert get(name).l2 == l2


@pytest.mark.parametrize("name", LARGE)
def test_vgg_and_inception_regularise_convolutions_only(name: str) -> None:
    with torch.device("meta"):
        model = get(name).model(0)
    assert get(name).l2 == 5e-4
    covered = get(name).regularised(model)
    dense = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
    assert dense
    assert {id(weight) for weight in kernels(model)} == {id(weight) for weight in [*covered, *dense]}
    assert len(covered) == len(convolutions(model)) == len(kernels(model)) - len(dense)


def test_no_l2_term_without_a_factor() -> None:
    assert get("mnist_mlp").regularisation(get("mnist_mlp").model(0)) == 0.0


def test_losses_and_accuracies_are_those_of_each_sample() -> None:
    logits = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert cross_entropy(logits, torch.tensor([1, 1])).tolist() == pytest.approx(
        [math.log(1 + math.exp(-2)), math.log(1 + math.exp(3))]
    )
    assert accuracies(logits, torch.tensor([1, 1])).tolist() == [1.0, 0.0]


# ---- beside the published benchmark


@torch.no_grad()
def test_the_gpt_reads_only_what_came_before() -> None:
    model = get("tolstoi_gpt").model(0).eval()
    text = torch.randint(83, (2, 128), generator=torch.Generator().manual_seed(0))
    logits = model(text)
    changed = text.clone()
    changed[:, 64] = (changed[:, 64] + 1) % 83
    assert logits.shape == (2, 128, 83)
    torch.testing.assert_close(model(changed)[:, :64], logits[:, :64])
    assert (model(changed)[:, 64:] != logits[:, 64:]).any(dim=2).all()
    found = get("tolstoi_gpt").losses(logits, text.roll(-1, 1))
    assert found.shape == (2,)
    assert float(found.mean()) == pytest.approx(math.log(83), rel=0.02)


@torch.no_grad()
def test_the_table_model_maps_features_to_classes() -> None:
    problem = get("covertype_mlp")
    outputs = problem.model(0).eval()(torch.randn(64, 54, generator=torch.Generator().manual_seed(0)))
    assert outputs.shape == (64, 7)
    assert float(problem.losses(outputs, torch.arange(64) % 7).mean()) == pytest.approx(math.log(7), rel=0.1)
