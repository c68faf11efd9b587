"""Things that share a name with others are told from them."""

from __future__ import annotations

import importlib
import json
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.bench.tiny import problem
from tests.running import python

from cockpit.bench import rates
from cockpit.bench.optimizers import choose, named
from cockpit.bench.origin import mark, problem_mark
from cockpit.bench.runner import bench, train
from cockpit.core.errors import CockpitError
from cockpit.results import folder as results
from cockpit.results.result import Result
from cockpit.results.summary import settings

MINE = '''
import torch

class Mine(torch.optim.SGD):
    """%s"""

    def step(self, closure=None):  # %s
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data -= %s * group["lr"] * parameter.grad

def warm(epoch): return %s

class Warm(torch.optim.lr_scheduler.LambdaLR):
    def __init__(self, optimizer): super().__init__(optimizer, lambda epoch: %s)
'''

Write = Callable[..., ModuleType]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module that trains with some factor, and import it, anew if it was."""
    monkeypatch.syspath_prepend(tmp_path)
    written = []

    def write(name: str, factor: float, said: str = "A comment", text: str = "") -> ModuleType:
        folder = tmp_path / f"version_{len(written)}"  # lines are remembered by their file
        folder.mkdir()
        (folder / f"{name}.py").write_text(text or MINE % (said, said, factor, factor, factor))
        monkeypatch.syspath_prepend(folder)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        written.append(name)
        return importlib.import_module(name)

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_two_classes_of_one_name(module: Write, tmp_path: Path) -> None:
    one, two = module("first_one", 1.0), module("second_one", 0.5)
    runs = [train(problem(), each.Mine, lr=0.1, out=tmp_path / "runs") for each in (one, two)]
    assert [run.optimizer for run in runs] == ["first_one:Mine", "second_one:Mine"]
    assert runs[0].curves != runs[1].curves
    assert {path.name for path in (tmp_path / "runs/tiny").iterdir()} == {"first_one-Mine", "second_one-Mine"}
    assert train(problem(), "first_one:Mine", lr=0.1, out=tmp_path / "runs") == runs[0]  # it is already there
    assert len(settings(results.find(tmp_path / "runs"))) == 2


def test_code_that_has_changed_is_refused(module: Write, tmp_path: Path) -> None:
    told = {"lr": 0.1, "out": tmp_path / "runs"}
    before = train(problem(), module("mine", 1.0).Mine, **told)
    same = module("mine", 1.0, said="Another comment")
    assert train(problem(), same.Mine, **told) == before
    other = module("mine", 0.5)
    with pytest.raises(CockpitError, match=r"the code of mine.Mine was another .*or --again"):
        train(problem(), other.Mine, **told)
    after = train(problem(), other.Mine, resume=False, **told)
    assert before.code != after.code
    assert before.curves != after.curves


def test_a_run_that_was_stopped_is_not_continued_by_other_code(
    module: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cockpit.bench.run.PAUSE", 0.0)

    class Stop:
        def epoch(self, epoch: int, result: Result) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

        def __getattr__(self, name: str) -> Any:
            return lambda *given: None

    told = {"lr": 0.1, "out": tmp_path / "runs"}
    with pytest.raises(KeyboardInterrupt):
        train(problem(), module("mine", 1.0).Mine, progress=Stop(), **told)
    with pytest.raises(CockpitError, match=r"the code of mine:Mine was another"):
        train(problem(), module("mine", 0.5).Mine, **told)
    assert train(problem(), module("mine", 1.0).Mine, **told).complete


def test_settings_of_other_code_are_others() -> None:
    known: dict[str, Any] = {"hyperparameters": {"lr": 0.1}, "batch_size": 1, "epochs": 1, "curves": {}}
    found = [Result("p", "m.Mine", seed=seed, code=code, **known) for seed, code in ((1, "a"), (2, "a"), (1, "b"))]
    assert [len(one.results) for one in settings(found)] == [2, 1]


def test_results_from_before_code_was_marked(tmp_path: Path) -> None:
    before = train(problem(), "SGD", lr=0.1, out=tmp_path)
    assert before.code is None
    (file,) = tmp_path.rglob("result.json")
    known = json.loads(file.read_text())
    file.write_text(json.dumps({name: known[name] for name in known if name not in ("code", "problem_code")}))
    assert bench(problem(), "SGD", [42], lr=0.1, out=tmp_path) == [replace(before, problem_code=None)]


@pytest.mark.parametrize("name", named())
def test_torchs_optimizers_keep_their_names(name: str) -> None:
    assert (choose(name).name, choose(name).code) == (name, None)


def test_torchs_classes_keep_their_names() -> None:
    assert choose(torch.optim.Adam).name == choose(partial(torch.optim.Adam, amsgrad=True)).name == "torch.optim:Adam"
    assert choose(lambda parameters: torch.optim.Adam(parameters, lr=0.1)).name == "torch.optim:Adam"


def test_two_functions_of_one_name(module: Write) -> None:
    one, two = module("first_one", 1.0), module("second_one", 0.5)
    assert rates.label(one.warm, 3) != rates.label(two.warm, 3)
    assert rates.label(one.warm, 3) == rates.label(module("third_one", 1.0).warm, 3)  # what it gives is the same
    assert rates.label(one.Warm, 3) != rates.label(two.Warm, 3)
    assert rates.label(torch.optim.lr_scheduler.ConstantLR, 3) == "ConstantLR"


def test_values_that_code_has_taken_from_outside_count() -> None:
    def made(factor: float) -> Any:
        class Inner(torch.optim.SGD):
            def scaled(self) -> float:
                return factor

        return Inner

    assert mark(made(1.0)) == mark(made(1.0)) != mark(made(2.0))


def test_code_without_a_file() -> None:
    def made(text: str) -> Any:
        space: dict[str, Any] = {}
        exec(f"def make(parameters, lr):\n    return {text}", space)
        return space["make"]

    assert mark(made("1")) == mark(made("1")) != mark(made("2"))


def run(text: str, **space: Any) -> Any:
    exec(text, space)
    return space["make"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("def make(x):\n    return {}", (1, 2)),
        ("make = lambda x: {}", (1, 2)),
        ("def make(x, *, lr={}):\n    return x", (1, 2)),
        ("def make(x, betas={}):\n    return x", ((0.9, 0.9), (0.9, 0.8))),
        ("def make({}):\n    return 1", ("a, b", "b, a")),
        ("class make:\n    @staticmethod\n    def step():\n        return {}", (1, 2)),
        ("class make:\n    @property\n    def rate(self):\n        return {}", (1, 2)),
        ("class make:\n    rate = {}", (1, 2)),
    ],
)
def test_code_whose_lines_are_those_of_another(text: str, values: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.13 on the lines of ``python -c`` stand under the name that everything made from a text has."""
    lines = (text.format("0") + "\n").splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "<string>", (1, None, lines, "<string>"))
    one, two = (text.format(value) for value in values)
    assert mark(run(one)) == mark(run(one)) != mark(run(two))
    inside = dict(vars(sys.modules[__name__]))  # a class is then looked for in this file
    assert mark(run(one, **inside)) != mark(run(two, **inside))


def test_two_lambdas_in_one_line() -> None:
    one, two = (lambda: 1), (lambda: 2)
    assert mark(one) != mark(two)


def test_a_class_keeps_its_mark_when_it_is_used() -> None:
    """Torch replaces ``step`` of a class by one that calls hooks when its first instance is made."""
    text = "class make(torch.optim.SGD):\n    def step(self, closure=None):\n        return {}"
    kind, other = (run(text.format(value), torch=torch) for value in (1, 2))
    before = mark(kind)
    kind([torch.nn.Parameter(torch.zeros(1))])
    assert mark(kind) == before != mark(other)


OWN = """
import torch
from torch import nn
from cockpit.problems import Problem, Splits
from cockpit.problems.data.batches import Resident

def line(seed):  # {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(2, 1)

def points(place, variant):
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    held = Resident(x, {} * x.sum(1, keepdim=True))
    return Splits(held, held, None, held)

def losses(outputs, targets):
    return (outputs - targets).square().sum(1)

slope = Problem("slope", "a line", line, points, losses, batch_size=8, epochs=3, target={})
"""


def test_code_of_a_problem_that_has_changed_is_refused(module: Write, tmp_path: Path) -> None:
    told = {"lr": 0.1, "out": tmp_path / "runs"}
    before = train(module("own", 2, text=OWN.format("A comment", 2, 0.5)).slope, "SGD", **told)
    again = train(module("own", 2, text=OWN.format("Another", 2, 0.5)).slope, "SGD", **told)
    assert again == before
    with pytest.raises(CockpitError, match=r"the code of slope was another .*or --again"):
        train(module("own", 2, text=OWN.format("Another", 1, 0.5)).slope, "SGD", **told)
    built_in = train("two_d_beale", "SGD", lr=1e-4, epochs=1, batch_size=100, out=tmp_path / "runs")
    assert built_in.problem_code is None


def test_a_problem_counts_with_what_it_binds() -> None:
    make = run("def make(seed, wide): return seed")
    task = problem(model=partial(make, wide=1))
    assert problem_mark(task) == problem_mark(replace(task, summary="said otherwise", target=1.0))
    others = [replace(task, l2=0.5), replace(task, model=partial(make, wide=2)), replace(task, losses=make)]
    assert len({problem_mark(one) for one in (task, *others)}) == 4


def test_a_mark_is_the_same_in_every_process(tmp_path: Path) -> None:
    code = (
        "from cockpit.bench.origin import mark; space = {};"
        'exec(\'def make(x, lr): return x in {"a", "b", "c", lr}, x in {"a", "b", "c"}\', space);'
        "print(mark(space['make']))"
    )
    marks = {python("-c", code, cwd=tmp_path, PYTHONHASHSEED=str(seed)).stdout for seed in range(3)}
    assert len(marks) == 1
    assert len(marks.pop().strip()) == 8


def test_an_old_result_does_not_stand_for_a_new_rule(tmp_path: Path) -> None:
    now = train(problem(), "Adam", lr=0.1, out=tmp_path)
    assert now.rule == 1
    (file,) = tmp_path.rglob("result.json")
    file.write_text(file.read_text().replace(', "rule": 1', ""))
    before = results.read(file)
    assert before.rule is None
    with pytest.raises(CockpitError, match=r"the rule of Adam was torch's, is version 1; .* or --again"):
        train(problem(), "Adam", lr=0.1, out=tmp_path)
    assert len(settings([before, replace(now, seed=43)])) == 2
    assert bench(problem(), "Adam", [42], lr=0.1, out=tmp_path, resume=False)[0].rule == 1
