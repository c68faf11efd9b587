from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest
from tests.bench.sweep.studies import OPTIMIZER

from cockpit.bench.sweep.resolve import resolve
from cockpit.bench.sweep.study import read
from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.plan import SweepPlan

GOOD = """\
name = "mine"
problems = ["quadratic_deep"]
optimizers = ["SGD", "my_opt:SignMom"]
budgets = ["oneshot", "small"]
search = "random"
seed = 42
seeds = 10
schedules = [
    "constant",
    "cosine",
]

[problem.quadratic_deep]
epochs = 5

[optimizer."my_opt:SignMom"]
lr = { log = [1e-4, 1.0] }
beta = { log1m = [1e-3, 0.5] }
"""


def resolved(folder: Path, text: str, optimizer: str = OPTIMIZER) -> SweepPlan:
    sys.modules.pop("my_opt", None)
    importlib.invalidate_caches()
    file = folder / "my_opt.py"
    file.unlink(missing_ok=True)
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    file.write_text(optimizer)
    (folder / "study.toml").write_text(text)
    return resolve(read(folder / "study.toml"), [str(folder)])


def test_a_study_is_resolved(tmp_path: Path) -> None:
    plan = resolved(tmp_path, GOOD)
    sgd, own = plan.optimizers
    assert (plan.name, plan.seed, plan.seeds, plan.cells) == ("mine", (42,), 10, 8)
    assert plan.problems[0].epochs == 5
    assert sgd.space == {"lr": {"log": [1e-4, 1.0]}}
    assert own.defaults == {"lr": 1e-3, "beta": 0.9}
    assert list(own.space) == ["lr", "beta"]


WRONG = [
    # what is replaced, by what, and what is said
    (
        '"constant",\n',
        '"cosin",\n',
        "9: schedules: 'cosin'; one of constant, cosine, cosine_wr, linear, ltr, one_cycle, trapezoidal, wsd",
    ),
    ('"constant",\n', '"cosin",\n', "did you mean 'cosine'"),
    ('"cosine",\n', '"0.1@x",\n', "10: schedules: schedule '0.1@x': '0.1@x' is not factor@epoch"),
    ("budgets", "budget", "4: budget: unknown key 'budget'"),
    ("budgets", "budget", "did you mean 'budgets'?"),
    ('problems = ["quadratic_deep"]\n', "", "1: problems: missing; add a line like problems = ["),
    ('optimizers = ["SGD", "my_opt:SignMom"]\n', "", "1: optimizers: missing; add a line like optimizers = ["),
    ('["quadratic_deep"]', '["quadratic_dep"]', "2: problems: 'quadratic_dep'; did you mean 'quadratic_deep'?"),
    ('["quadratic_deep"]', "[]", "2: problems: []; give a list with at least one entry"),
    ('["quadratic_deep"]', '"quadratic_deep"', "2: problems: 'quadratic_deep'; give a list"),
    ('"SGD", ', '"SDG", ', "3: optimizers: 'SDG'; did you mean 'SGD'"),
    ('"SGD", ', '"SGD", "sgd", ', "3: optimizers: 'SGD' is meant twice; once is enough"),
    ('"SGD", ', '"no_such:Thing", ', "3: optimizers: optimizer 'no_such:Thing' cannot be imported: No module named"),
    ('["oneshot", "small"]', '["oneshot", "smal"]', "4: budgets: 'smal'; one of oneshot, small, medium, large or a"),
    ('["oneshot", "small"]', '["oneshot", 0]', "4: budgets: 0; give a number of settings, 1 or more"),
    ('"random"', '"bayes"', "5: search: 'bayes'; one of random, grid, study"),
    ("seed = 42", "seed = -1", "6: seed: -1; give a whole number, 0 or more"),
    ("seed = 42", "seed = [42, 4.5]", "6: seed: 4.5; give a whole number, 0 or more"),
    ("seeds = 10", "seeds = 0", "7: seeds: 0; give a whole number, 1 or more"),
    ("seeds = 10", 'protocol = "crowded"', "7: protocol: 'crowded'; one of crowded-valley; did you mean"),
    ("seeds = 10", 'protocol = "crowded-valley"', "5: search: 'random'; the protocol crowded-valley draws as the"),
    ("seeds = 10", "seeds = 10 20", "7: not TOML: expected newline"),
    ("[problem.quadratic_deep]", "[problem.quadratic]", "13: problem.quadratic: 'quadratic'; one of quadratic_deep"),
    ("epochs = 5", "epoch = 5", "14: problem.quadratic_deep.epoch: unknown option 'epoch'; one of epochs, batch_size"),
    ("epochs = 5", "epochs = 2.5", "14: problem.quadratic_deep.epochs: 2.5; give a whole number"),
    (
        "epochs = 5",
        "label_leak = true",
        "14: problem.quadratic_deep.label_leak: quadratic_deep has no variant",
    ),
    ("epochs = 5", 'order = "fix"', "14: problem.quadratic_deep.order: 'fix'; one of fresh, fixed, study"),
    (
        "epochs = 5",
        "no_validation = true",
        "14: problem.quadratic_deep.no_validation: settings are chosen on",
    ),
    (
        '[optimizer."my_opt:SignMom"]',
        '[optimizer."my_opt:Sign"]',
        "16: optimizer.\"my_opt:Sign\": 'my_opt:Sign'; one of",
    ),
    ("[1e-4, 1.0]", "[1.0, 1e-4]", "lr: log is [1.0, 0.0001]; its bounds must be 0 < low < high"),
    ("[1e-4, 1.0]", "[0, 1.0]", '17: optimizer."my_opt:SignMom".lr: log is [0, 1.0]; its bounds must be 0 < low'),
    ("[1e-3, 0.5]", "[0.5, 0.5]", "beta: log1m is [0.5, 0.5]; its bounds must be 0 < low < high"),
    ("{ log =", "{ logg =", "lr: 'logg'; one of log, log1m, uniform, int, choice; did you mean 'log'"),
    ("{ log = [1e-4, 1.0] }", "{ int = [1.5, 2] }", "lr: int is [1.5, 2]; its bounds must be whole numbers"),
    ("{ log = [1e-4, 1.0] }", "{ choice = [] }", "lr: choice is []; give a list of values"),
    ("{ log = [1e-4, 1.0] }", "{ log = [1e-4] }", "lr: log is [0.0001]; give two numbers, [low, high]"),
    ("{ log = [1e-4, 1.0] }", '"fast"', '17: optimizer."my_opt:SignMom".lr: '),
    (
        "\nbeta =",
        "\nbetta =",
        "18: optimizer.\"my_opt:SignMom\".betta: unknown hyperparameter 'betta'; one of lr, beta",
    ),
    (
        '"random"',
        '"grid"',
        "3: optimizers: 'SGD': a grid needs a number of values of lr; add lines like\n[optimizer.SGD]\n"
        "lr = { log = [0.0001, 1.0], steps = 10 }",
    ),
    (
        'search = "random"\n',
        'search = "grid"\noptimizer.SGD.lr = 0.1\n',
        '18: optimizer."my_opt:SignMom".lr: a grid needs a number of values; add steps = 10 to it',
    ),
    ("[optimizer.", "[optimisers.", "16: optimisers: unknown key 'optimisers'"),
    ('["oneshot", "small"]', '["small", 25]', "4: budgets: 'small' and 25 are the same budget, 25 settings"),
    ('["oneshot", "small"]', '["large", 75, 50, "medium"]', "4: budgets: 50 and 'medium' are the same budget"),
    (
        '"quadratic_deep"]',
        '"two_d_rosenbrock"]',
        "2: problems: 'two_d_rosenbrock' has no epochs of its own; add epochs = 10 below",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_wrong_files(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(CockpitError) as caught:
        resolved(tmp_path, GOOD.replace(old, new, 1))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'study.toml'}:")
    assert said in message, message


def test_no_space(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("[optimizer.")]
    with pytest.raises(CockpitError) as caught:
        resolved(tmp_path, text)
    head, *lines = str(caught.value).splitlines()
    assert head.endswith("add lines like")
    assert "study.toml:3: optimizers: 'my_opt:SignMom' has no space" in head
    assert resolved(tmp_path, text + "\n".join(lines)).optimizers[1].space.keys() == {"lr", "beta"}
    resolved(tmp_path, text.replace(', "small"', ""))  # none is needed where nothing is tuned


def test_an_optimizer_without_a_default_rate(tmp_path: Path) -> None:
    needing = OPTIMIZER.replace("lr=1e-3", "lr")
    with pytest.raises(CockpitError, match=r"study.toml:3: optimizers: my_opt:SignMom with .* cannot be made"):
        resolved(tmp_path, GOOD, needing)
    own = resolved(tmp_path, GOOD.replace('"oneshot", ', ""), needing).optimizers[1]
    assert own.defaults == {"beta": 0.9}


def test_numbers_are_what_the_optimizer_has(tmp_path: Path) -> None:
    code = OPTIMIZER.replace("beta=0.9", "beta=0.9, k=5, other=None")
    lines = "lr = 1\nk = { choice = [1, 2] }\nother = { choice = [3] }\nbeta = { choice = [0, 0.5] }\n"
    text = GOOD[: GOOD.index("lr =")] + lines
    space = resolved(tmp_path, text, code).optimizers[1].space
    assert repr(space) == repr(
        {"lr": 1.0, "k": {"choice": [1, 2]}, "other": {"choice": [3]}, "beta": {"choice": [0.0, 0.5]}}
    )


def test_grid_that_is_larger_than_the_budget(tmp_path: Path) -> None:
    text = (
        GOOD.replace('"random"', '"grid"')
        .replace('"SGD", ', "")
        .replace("1.0]", "1.0], steps = 6")
        .replace("{ log1m = [1e-3, 0.5] }", "{ choice = [0, 0.5, 0.8, 0.9, 0.99] }")
    )
    with pytest.raises(CockpitError, match="the grid has 30 settings, budget 'small' tries 25; give fewer values"):
        resolved(tmp_path, text)
    plan = resolved(tmp_path, text.replace('"small"', "30"))
    assert plan.optimizers[0].space["beta"] == {"choice": [0.0, 0.5, 0.8, 0.9, 0.99]}


def test_names_in_any_case(tmp_path: Path) -> None:
    plan = resolved(tmp_path, GOOD.replace('"SGD"', '"la(radam)", "rmsPROP"') + '[optimizer."rmsprop"]\nlr = 1\n')
    assert [one.name for one in plan.optimizers] == ["LA(RAdam)", "RMSprop", "my_opt:SignMom"]
    assert plan.optimizers[1].space == {"lr": 1.0}


def test_a_mark_is_that_of_the_whole_file(tmp_path: Path) -> None:
    def version() -> object:
        sys.modules.pop("my_opt", None)
        return resolve(read(tmp_path / "study.toml"), [str(tmp_path)]).optimizers[1].version

    (tmp_path / "study.toml").write_text(GOOD)
    (tmp_path / "my_opt.py").write_text(OPTIMIZER)
    first = version()
    (tmp_path / "my_opt.py").write_text(OPTIMIZER.replace("file of its own", "FILE") + "\n# no code\n")
    assert version() == first
    (tmp_path / "my_opt.py").write_text(OPTIMIZER + "\nFACTOR = 2\n")
    assert version() != first


def test_groups_of_optimizers(tmp_path: Path) -> None:
    plan = resolved(tmp_path, GOOD.replace('"SGD", ', '"study", '))
    names = [one.name for one in plan.optimizers]
    assert (len(names), names[0], names[-1]) == (16, "AMSBound", "my_opt:SignMom")
    assert all(one.studied for one in plan.optimizers[:-1])
    every = [one.name for one in resolved(tmp_path, GOOD.replace('"SGD", ', '"all", ')).optimizers]
    assert set(names) | {"Lion", "Muon"} <= set(every)
    with pytest.raises(CockpitError, match="3: optimizers: 'SGD' is meant twice; once is enough"):
        resolved(tmp_path, GOOD.replace('"SGD", ', '"SGD", "study", '))
