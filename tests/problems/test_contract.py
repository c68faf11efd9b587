"""Problems of every kind pass the contract suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit import problems
from cockpit.problems._base import Problem
from cockpit.problems.data.sample import write_sample
from cockpit.testing import ProblemContract

DATA = {"two_d_beale": None, "quadratic_deep": None, "digits": None, "mnist_logreg": "mnist", "svhn_3c3d": "svhn",
        "tolstoi_gpt": "tolstoi", "covertype_mlp": "covertype"}  # fmt: skip


class TestProblems(ProblemContract):
    @pytest.fixture(autouse=True, params=list(DATA))
    def chosen(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.problem = problems.get(request.param)
        self.folder = tmp_path
        if dataset := DATA[request.param]:
            write_sample(dataset, tmp_path, samples=64)

    def make(self) -> Problem:
        return self.problem
