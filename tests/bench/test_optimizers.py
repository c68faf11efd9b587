from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cockpit.bench.optimizers import Choice, choose, hyperparameter, named
from cockpit.core.errors import CockpitError
from cockpit.optimizers import KNOWN, RULES
from cockpit.optimizers.ruled import RuleOptimizer


class Mine(torch.optim.Optimizer):
    def __init__(self, params: Iterable[Tensor], lr: float, power: int = 2, betas: tuple[float, float] = (0.8, 0.9)):
        super().__init__(params, {"lr": lr, "power": power, "betas": betas})

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Do nothing."""


class Free(torch.optim.Optimizer):
    def __init__(self, params: Iterable[Tensor], growth: float = 2.0, lr_name: str = "lr") -> None:
        super().__init__(params, {lr_name: 0.5, "growth": growth})


class Hungry(Mine):
    def step(self, closure: Callable[[], float]) -> None:  # type: ignore[override]
        """Do nothing."""


def anything(params: Iterable[Tensor], **settings: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, **settings)


def group(choice: Choice, shape: tuple[int, ...] = (3, 3)) -> dict[str, Any]:
    return choice.build([nn.Parameter(torch.zeros(shape))]).param_groups[0]


@pytest.mark.parametrize("name", list(named()))
def test_every_name_builds_its_optimizer(name: str) -> None:
    choice = choose(name.upper())
    assert choice.name == name
    assert group(choice)["lr"] == choice.hyperparameters["lr"] > 0


def test_names_are_those_of_the_study_and_of_torch() -> None:
    torchs = [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]
    known = {kind.__name__ for kind in torchs if issubclass(kind, torch.optim.Optimizer)} - {"Optimizer"}
    assert named().keys() == known | KNOWN.keys()


@pytest.mark.parametrize("name", [name for name in named() if name not in KNOWN])
def test_a_name_of_torch_alone_is_torchs(name: str) -> None:
    choice = choose(name.lower())
    assert type(choice.build([nn.Parameter(torch.zeros(2, 2))])) is getattr(torch.optim, name)
    assert choice.rule is None


@pytest.mark.parametrize("name", RULES)
def test_a_name_of_the_study_is_its_rule(name: str) -> None:
    choice = choose(name.swapcase())
    assert (choice.name, choice.rule, choice.code) == (name, RULES[name].version, None)
    assert choice.hyperparameters == RULES[name].defaults
    built = choice.build([nn.Parameter(torch.zeros(3))])
    assert isinstance(built, RuleOptimizer)
    assert built.rule is RULES[name]
    assert {key: built.param_groups[0][key] for key in choice.hyperparameters} == RULES[name].defaults


@pytest.mark.parametrize("name", ["NAdam", "SGD", "AdamW"])
def test_torchs_own_are_called_as_they_are_written(name: str) -> None:
    written, kind = choose(f"torch.optim:{name}"), choose(getattr(torch.optim, name))
    assert written.name == kind.name == f"torch.optim:{name}"
    assert written.rule is None
    assert type(written.build([nn.Parameter(torch.zeros(3))])) is getattr(torch.optim, name)


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("Adam", "weight_decay", r"Adam follows a rule that has no weight_decay .*give torch\.optim:Adam$"),
        ("nag", "weight_decay", r"give torch\.optim:SGD with momentum=0\.99 and nesterov=true$"),
        ("SGD", "momentum", r"give Momentum, NAG, or torch\.optim:SGD$"),
        ("AMSGrad", "amsgrad", r"give torch\.optim:Adam with amsgrad=true$"),
    ],
)
def test_what_only_torch_has(name: str, setting: str, message: str) -> None:
    with pytest.raises(CockpitError, match=message):
        choose(name, **{setting: 0.1})


def test_given_values_stand_before_defaults() -> None:
    choice = choose("Momentum", lr=1, momentum=0.5)
    assert choice.hyperparameters == {"lr": 1.0, "momentum": 0.5}
    assert isinstance(choice.hyperparameters["lr"], float)
    assert choose("Momentum").hyperparameters == {"lr": 0.01, "momentum": 0.99}  # the defaults are not changed


@pytest.mark.parametrize(
    ("given", "betas"),
    [
        ({"beta1": 0.5}, (0.5, 0.999)),
        ({"beta2": 0.5}, (0.9, 0.5)),
        ({"beta1": 0.5, "beta2": 0.6}, (0.5, 0.6)),
        ({"betas": [0.5, 0.6]}, (0.5, 0.6)),
    ],
)
@pytest.mark.parametrize("name", ["torch.optim:Adam", "Adamax"])
def test_betas_in_one_or_apart(name: str, given: dict[str, Any], betas: tuple[float, float]) -> None:
    choice = choose(name, **given)
    assert group(choice)["betas"] == betas
    assert "betas" not in choice.hyperparameters


def test_betas_of_a_rule() -> None:
    assert choose("Adam", betas=(0.5, 0.6)).hyperparameters == {"lr": 1e-3, "beta1": 0.5, "beta2": 0.6, "eps": 1e-8}


def test_a_class_of_torch_has_the_defaults_of_torch() -> None:
    assert choose(torch.optim.SGD).hyperparameters == {"lr": 1e-3}
    assert group(choose(torch.optim.Adadelta))["eps"] == 1e-6


@pytest.mark.parametrize("optimizer", [Mine, f"{__name__}:Mine", partial(Mine, power=3)])
def test_an_own_optimizer(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, SimpleNamespace(Mine=Mine))
    choice = choose(optimizer, lr=0.1, beta1=0.7)
    assert choice.name == f"{__name__}:Mine"
    bound = {"power": 3} if isinstance(optimizer, partial) else {}  # tells its runs from those without it
    assert choice.hyperparameters == {"lr": 0.1, "beta1": 0.7, **bound}
    made = choice.build([nn.Parameter(torch.zeros(2))])
    assert isinstance(made, Mine)
    assert made.param_groups[0]["betas"] == (0.7, 0.9)
    assert made.param_groups[0]["power"] == (3 if isinstance(optimizer, partial) else 2)


def test_a_function_that_takes_anything() -> None:
    assert group(choose(anything, lr=0.3, momentum=0.4))["momentum"] == 0.4
    assert choose(anything).hyperparameters == {"lr": 1e-3}  # what its groups have


def test_an_optimizer_that_finds_its_rate() -> None:
    choice = choose(Free, growth=3.0)
    assert choice.hyperparameters == {"growth": 3.0, "lr": 0.5}
    assert group(choice)["lr"] == 0.5
    with pytest.raises(CockpitError, match=r"unknown hyperparameter of .*Free 'lr'; .*known: growth"):
        choose(Free, lr=0.1)
    with pytest.raises(CockpitError, match="Free has no 'lr' in its parameter groups"):
        choose(Free, lr_name="rate")


def test_who_needs_a_closure() -> None:
    assert [name for name in named() if choose(name).needs_closure] == ["LBFGS"]
    assert choose(Hungry, lr=1).needs_closure
    assert choose(partial(torch.optim.LBFGS, max_iter=3)).needs_closure
    assert not choose(Mine, lr=1).needs_closure
    assert not choose(anything).needs_closure


def test_a_choice_goes_to_another_process() -> None:
    for name in named():
        assert pickle.loads(pickle.dumps(choose(name))).hyperparameters == choose(name).hyperparameters


@pytest.mark.parametrize(
    ("optimizer", "settings", "message"),
    [
        ("Adan", {}, "unknown optimizer 'Adan'; did you mean 'Adam'"),
        (3, {}, "optimizer is 3; give a name"),
        ("no.such.module:Mine", {}, "cannot be imported: No module named 'no'"),
        ("torch.optim:Nothing", {}, "cannot be imported: .*Nothing"),
        (":Mine", {}, "cannot be imported"),
        ("torch:__version__", {}, "give a class or a function"),
        ("Adamax", {"beta": 0.9}, r"unknown hyperparameter of Adamax 'beta'; .*known: .*beta1"),
        ("Adam", {"beta": 0.9}, r"unknown hyperparameter of Adam 'beta'; .*known: beta1, beta2, eps, lr"),
        ("Adamax", {"lr": "fast"}, r"Adamax: lr is 'fast'; give a finite number\. Known: .*weight_decay"),
        ("SGD", {"lr": "fast"}, r"SGD: lr is 'fast'; give a number that is 0 or more"),
        ("ASGD", {"lr": True}, "give a finite number"),
        ("SGD", {"lr": True}, "give a number"),
        ("ASGD", {"lr": float("nan")}, "give a finite number"),
        ("SGD", {"lr": float("nan")}, "give a number"),
        ("Adamax", {"lr": -1.0}, "Adamax with .* cannot be made: Invalid learning rate"),
        ("SGD", {"lr": -1.0}, "lr is -1.0; give a number that is 0 or more"),
        ("torch.optim:SGD", {"nesterov": 1}, "nesterov is 1; give true or false"),
        ("torch.optim:SGD", {"nesterov": True}, "Nesterov momentum requires a momentum"),
        ("LA(Momentum)", {"k": 2.5}, "k is 2.5; give a number that is whole and 1 or more"),
        ("Adamax", {"beta1": 1.5}, "Invalid beta parameter"),
        ("Adam", {"beta1": 1.5}, "beta1 is 1.5; give a number from 0 to below 1"),
        ("Adam", {"betas": 0.9}, "betas is 0.9; give two numbers"),
        ("Adam", {"betas": (0.9, 0.99), "beta1": 0.9}, "give two numbers, or beta1 and beta2 instead"),
        ("Rprop", {"etas": (1.0, 2.0, 3.0)}, "give 2 values"),
        ("LBFGS", {"max_iter": 2.5}, r"max_iter is 2\.5; give a whole number"),
        (Mine, {}, "Mine with .* cannot be made: .*lr"),
    ],
)
def test_wrong_input(optimizer: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CockpitError, match=message):
        choose(optimizer, **settings)


def test_an_optimizer_that_does_not_fit_the_model() -> None:
    with pytest.raises(CockpitError, match=r"Muon with .* cannot be made"):
        choose("torch.optim:Muon").build([nn.Parameter(torch.zeros(3))])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr=1e-3", ("lr", 1e-3)),
        ("max_iter=20", ("max_iter", 20)),
        ("weight-decay = 0.1", ("weight_decay", 0.1)),
        ("nesterov=True", ("nesterov", True)),
        ("nesterov=false", ("nesterov", False)),
        ("foreach=none", ("foreach", None)),
        ("line_search_fn=strong_wolfe", ("line_search_fn", "strong_wolfe")),
        ("betas=0.9,0.99", ("betas", (0.9, 0.99))),
    ],
)
def test_a_hyperparameter_of_a_command_line(text: str, expected: tuple[str, Any]) -> None:
    name, value = hyperparameter(text)
    assert (name, value) == expected
    assert type(value) is type(expected[1])


@pytest.mark.parametrize("text", ["lr", "lr=", "=1", "", "two words=1"])
def test_a_hyperparameter_that_is_none(text: str) -> None:
    with pytest.raises(CockpitError, match="is not name=value"):
        hyperparameter(text)


def test_what_is_given_counts_more_than_what_a_partial_binds() -> None:
    bound = partial(partial(torch.optim.Adam, betas=(0.5, 0.6), lr=1.0), lr=0.2)
    assert choose(bound).hyperparameters == {"lr": 0.2, "beta1": 0.5, "beta2": 0.6}
    assert choose(bound, beta1=0.1, lr=0.3).hyperparameters == {"lr": 0.3, "beta1": 0.1, "beta2": 0.6}


def test_a_lambda_is_known_by_what_it_makes() -> None:
    choice = choose(lambda parameters, lr: torch.optim.SGD(parameters, lr, momentum=0.9), lr=0.1)
    assert (choice.name, choice.hyperparameters) == ("torch.optim:SGD", {"lr": 0.1, "momentum": 0.9})
    assert group(choice)["momentum"] == 0.9
    with pytest.raises(CockpitError, match="write a function with def"):
        choose(lambda parameters, lr: torch.optim.SGD(list(parameters)[1:], lr), lr=0.1)


def test_a_module_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lying_here.py").write_text("import torch\nclass Mine(torch.optim.SGD): pass\n")
    (tmp_path / "json.py").write_text("raise RuntimeError")  # never before what is installed
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert choose("lying_here:Mine", lr=0.1).name == "lying_here:Mine"
    assert sys.path == before
    with pytest.raises(CockpitError, match="give a class or a function"):
        choose("json:decoder")
    with pytest.raises(CockpitError, match=r"json \(.*__init__\.py\) has no 'Mine'"):
        choose("json:Mine")
    monkeypatch.delitem(sys.modules, "lying_here")


def test_a_function_that_makes_no_optimizer() -> None:
    def three(parameters: Any, lr: float = 0.1) -> Any:
        return 3

    with pytest.raises(CockpitError, match=r"three makes a int; return a torch\.optim\.Optimizer"):
        choose(three).build([torch.nn.Parameter(torch.zeros(1))])


def test_a_lambda_that_makes_a_rule() -> None:
    choice = choose(lambda parameters, lr: choose("NAdam", lr=lr).build(parameters), lr=0.1)
    assert (choice.name, choice.rule) == ("NAdam", RULES["NAdam"].version)
    assert choice.hyperparameters == RULES["NAdam"].defaults | {"lr": 0.1}


def test_a_module_beside_a_file_comes_before_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, base in (("here", "SGD"), ("study", "Adam")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "in_both.py").write_text(f"import torch\nclass Mine(torch.optim.{base}): pass\n")
    monkeypatch.chdir(tmp_path / "here")
    choice = choose("in_both:Mine", beside=[tmp_path / "study"], lr=0.1)
    assert issubclass(choice.make, torch.optim.Adam)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "in_both")


def test_a_module_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torn.py").write_text("class Mine(:\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CockpitError, match=r"'torn:Mine' cannot be imported: SyntaxError: .*torn.py, line 1"):
        choose("torn:Mine")
