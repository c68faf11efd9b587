"""Stability under another tuning seed, and over seeds for every setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.results.sweeps.plans import PLAN, entry, plan
from tests.results.sweeps.test_cells import filled

from cockpit.results.sweeps.reading import read
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.stability import retuned, tried


def test_another_tuning_seed(tmp_path: Path) -> None:
    wanted = plan(seed=(42, 7), seeds=2)
    store = filled(tmp_path, wanted, lambda spec: entry(spec, spec.hyperparameters["lr"], test=float(spec.seed)))
    (one,) = retuned(read(store).cells)  # one-shot cells are not tuned
    assert (one.budget, one.tuning_seeds, one.means, one.stds) == ("small", (42, 7), (42.5, 7.5), (0.5, 0.5))
    assert one.shift == 35.0
    assert one.hyperparameters[0] != one.hyperparameters[1]
    assert retuned(read(filled(tmp_path / "one", PLAN)).cells) == []


def test_every_setting_over_its_seeds(tmp_path: Path) -> None:
    def make(spec: Spec) -> Any:
        bad = spec.seed == 43 and spec.hyperparameters["lr"] > 0.1
        return entry(spec, test=spec.seed, state="diverged" if bad else "finished", length=1 if bad else 3)

    found = tried(read(filled(tmp_path, plan(budgets=("small",), tuning_seeds=3, seeds=2), make)))
    assert [one.trial for one in found] == list(range(25))
    for one in found:
        assert one.seeds == 3
        if one.hyperparameters["lr"] > 0.1:
            assert (one.mean, one.std, one.diverged, one.values) == (None, None, 1, (42.0, None, 44.0))
        else:
            assert (one.mean, one.diverged, one.values) == (43.0, 0, (42.0, 43.0, 44.0))
    assert {one.diverged for one in found} == {0, 1}
    assert tried(read(filled(tmp_path / "one", PLAN))) == []
