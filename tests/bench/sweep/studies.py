"""Study files that are swept in a second, and what their stores hold."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

OPTIMIZER = '''
"""A user's optimizer in a file of its own."""

import torch


class SignMom(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.mul_(group["beta"]).add_(p.grad)
                p.sub_(group["lr"] * m.sign())
'''
SLOW = OPTIMIZER.replace("import torch", "import time\nimport torch").replace(
    "for group in", "time.sleep(0.01)\n        for group in"
)
STUDY = """
problems = ["quadratic_deep"]
optimizers = ["SGD", "NAdam", "my_opt:SignMom"]
budgets = ["oneshot", 5]
seeds = 3

[problem.quadratic_deep]
epochs = 2

[optimizer."my_opt:SignMom"]
lr = { log = [1e-4, 1.0] }
beta = { log1m = [1e-3, 0.5] }
"""
RUNS = 3 * (3 + 5 + 2)  # of STUDY


def write(folder: Path, text: str = STUDY, optimizer: str = OPTIMIZER) -> Path:
    """A study file with the optimizer beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my_opt.py").write_text(optimizer)
    file = folder / "study.toml"
    file.write_text(text)
    return file


def numbers(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything about the results of a store that must be the same when they are made again."""
    db = sqlite3.connect(folder / "sweep.db")
    names = "id, identity, state, metrics, curves, diverged, message"
    found = {row[0]: row[1:] for row in db.execute(f"SELECT {names} FROM result")}
    db.close()
    return found


ODD = '''
"""Optimizers that go wrong."""

import os
import time

import torch


class Odd(torch.optim.SGD):
    """Fails as its rate says."""

    def __init__(self, params, lr=0.01, kind=0):
        if kind == 1:
            raise ValueError("this kind is refused")
        super().__init__(params, lr=lr)
        self.kind, self.steps = kind, 0

    def step(self):
        self.steps += 1
        if self.steps == 5 and self.kind == 2:
            raise RuntimeError("a bug in the optimizer")
        if self.steps == 5 and self.kind == 3:
            os.kill(os.getpid(), 11)
        if self.steps == 5 and self.kind == 4:
            raise SystemExit(3)
        if self.steps == 5 and self.kind == 5:
            print("printed by an optimizer")
        super().step()
'''
ODDS = """
problems = ["quadratic_deep"]
optimizers = ["my_opt:Odd"]
budgets = [8]
search = "grid"
seeds = 2

[problem.quadratic_deep]
epochs = 2

[optimizer."my_opt:Odd"]
lr = 0.01
kind = { choice = [0, 1, 2, 4, 5] }
"""
