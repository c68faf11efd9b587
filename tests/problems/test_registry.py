"""Problems are found by name, without torch until one is asked for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from cockpit import problems
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Problem, Variant

PAPER = {
    "P1": "quadratic_deep",
    "P2": "mnist_vae",
    "P3": "fmnist_2c2d",
    "P4": "cifar10_3c3d",
    "P5": "fmnist_vae",
    "P6": "cifar100_allcnnc",
    "P7": "svhn_wrn164",
    "P8": "tolstoi_char_rnn",
    "P9": "mnist_logreg",
    "P10": "mnist_mlp",
    "P11": "fmnist_mlp",
    "P12": "svhn_3c3d",
}

PUBLISHED = {  # batch size, epochs, L2 factor, convergence performance
    "two_d_beale": (None, None, 0, None),
    "two_d_branin": (None, None, 0, None),
    "two_d_rosenbrock": (None, None, 0, None),
    "quadratic_deep": (128, 100, 0, 87.70315464772136),
    "mnist_logreg": (128, 50, 0, None),
    "mnist_mlp": (128, 100, 0, None),
    "mnist_2c2d": (128, 100, 0, None),
    "mnist_vae": (64, 50, 0, 73.49819796869767),
    "fmnist_logreg": (128, 50, 0, None),
    "fmnist_mlp": (128, 100, 0, None),
    "fmnist_2c2d": (128, 100, 0, 0.9198093278634639),
    "fmnist_vae": (64, 100, 0, 92.97764997362836),
    "cifar10_3c3d": (128, 100, 0.002, 0.8283307079578206),
    "cifar10_vgg16": (None, None, 5e-4, None),
    "cifar10_vgg19": (None, None, 5e-4, None),
    "cifar100_3c3d": (None, None, 0.002, None),
    "cifar100_vgg16": (None, None, 5e-4, None),
    "cifar100_vgg19": (None, None, 5e-4, None),
    "cifar100_allcnnc": (256, 350, 5e-4, 0.5256043511573971),
    "cifar100_wrn404": (128, 160, 5e-4, None),
    "cifar100_wrn164": (128, 160, 5e-4, None),
    "svhn_3c3d": (128, 100, 0.002, None),
    "svhn_wrn164": (128, 160, 5e-4, 0.9501991843298437),
    "imagenet_vgg16": (None, None, 5e-4, None),
    "imagenet_vgg19": (None, None, 5e-4, None),
    "imagenet_inception_v3": (None, None, 5e-4, None),
    "tolstoi_char_rnn": (50, 200, 0, 0.6045863566200845),
}


@pytest.mark.parametrize("name", problems.names())
def test_every_file_holds_the_problem_of_its_name(name: str) -> None:
    problem = problems.get(name)
    assert isinstance(problem, Problem)
    assert problem.name == name
    assert problem.summary
    assert "\n" not in problem.summary
    assert (problem.batch_size is None) == (problem.epochs is None)


def test_the_published_numbers() -> None:
    found = {problem.paper: name for name in problems.names() if (problem := problems.get(name)).paper}
    assert found == PAPER
    assert [PAPER[f"P{number}"] for number in range(1, 9)] == [*problems.group("small"), *problems.group("large")]


@pytest.mark.parametrize("name", PUBLISHED)
def test_settings_of_the_published_benchmark(name: str) -> None:
    problem = problems.get(name)
    assert (problem.batch_size, problem.epochs, problem.l2, problem.target) == PUBLISHED[name]


def test_all_other_problems_are_known_to_be_ours() -> None:
    assert set(problems.names()) - set(PUBLISHED) == {*problems.MODERN, "digits"}


def test_the_published_benchmark_has_a_target_for_each_of_its_sets() -> None:
    targets = {name: problems.get(name).target for name in problems.names() if problems.get(name).target is not None}
    assert set(targets) == {*problems.SMALL, *problems.LARGE}
    for name, target in targets.items():
        assert target is not None
        assert (target < 1) == (problems.get(name).metric == "accuracy")


def test_groups() -> None:
    assert problems.group("all") == problems.names()
    assert len(problems.names()) == 31
    for group in ("small", "large", "modern"):
        assert set(problems.group(group)) < set(problems.names())
    with pytest.raises(CockpitError, match="unknown group of problems 'smal'; did you mean 'small'"):
        problems.group("smal")


def test_an_unknown_problem_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CockpitError, match=r"unknown problem 'mnist_2c2'; did you mean 'mnist_2c2d'"):
        problems.get("mnist_2c2")
    for hidden in ("_base", "data", "nets"):
        with pytest.raises(CockpitError, match="unknown problem"):
            problems.get(hidden)


def test_names_need_no_torch() -> None:
    code = "import sys; from cockpit import problems; problems.group('all'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_only_the_quadratic_changes_with_the_hessian() -> None:
    other, quadratic = problems.get("mnist_logreg"), problems.get("quadratic_deep")
    assert problems.adapt(other, Variant(hessian=3)) is other
    assert problems.adapt(quadratic, Variant(validation=False)) is quadratic
    changed = problems.adapt(replace(quadratic, batch_size=64), Variant(hessian=3))
    assert (changed.name, changed.batch_size, changed.target) == ("quadratic_deep", 64, quadratic.target)
    assert not torch.equal(changed.model(0).get_buffer("factor"), quadratic.model(0).get_buffer("factor"))


@pytest.mark.parametrize("hessian", [-1, 1.5, True, None])
def test_what_is_no_number_of_a_hessian_is_refused_at_once(hessian: Any) -> None:
    with pytest.raises(CockpitError, match=rf"hessian={hessian}: give the number of a matrix, 0 or more"):
        problems.adapt(problems.get("quadratic_deep"), Variant(hessian=hessian))
