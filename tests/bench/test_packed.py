"""Runs on disk that go in step give, to the last bit, what each gives alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from cockpit.bench import packed
from cockpit.bench.packed import Packed
from cockpit.bench.progress import Lines
from cockpit.bench.runner import bench, train
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Variant
from cockpit.results import folder as results
from cockpit.results.result import Result
from cockpit.run import open_run
from cockpit.store import runs

SHORT: dict[str, Any] = {"epochs": 2, "batch_size": 250, "lr": 1e-3}


@pytest.fixture
def went(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The seeds that went in step, group by group."""
    seen: list[list[int]] = []
    go = Packed.go

    def counted(self: Packed, state: Any = None) -> list[Result]:
        seen.append([run.plan.seed for run in self._runs])
        return go(self, state)

    monkeypatch.setattr(Packed, "go", counted)
    return seen


def same(found: Sequence[Result], expected: Sequence[Result]) -> bool:
    return [replace(one, seconds=[]) for one in found] == [replace(one, seconds=[]) for one in expected]


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ("quadratic_deep", {}),
        ("quadratic_deep", {"batch_size": 128, "variant": Variant(validation=False, order="fixed", hessian=1)}),
        ("quadratic_deep", {"schedule": "0.5@1", "log_interval": 3, "batch_size": 100}),
        ("quadratic_deep", {"schedule": partial(StepLR, step_size=1)}),
        ("quadratic_deep", {"schedule": partial(ReduceLROnPlateau, patience=0, threshold=0.5)}),
        ("two_d_beale", {"lr": 1e-5}),
        ("two_d_branin", {"batch_size": 128}),
        ("two_d_rosenbrock", {"batch_size": 1000}),
    ],
)
def test_runs_are_those_of_each_seed_alone(
    problem: str, options: dict[str, Any], tmp_path: Path, went: list[list[int]]
) -> None:
    told = {**SHORT, **options}
    found = bench(problem, "SGD", [3, 4, 5], out=tmp_path / "together", **told)
    assert went == [[3, 4, 5]]
    alone = [train(problem, "SGD", seed=seed, out=tmp_path / "alone", **told) for seed in (3, 4, 5)]
    assert same(found, alone)
    assert len({tuple(one.curves["test_loss"]) for one in found}) == 3
    assert same(results.find(tmp_path / "together", True), found)
    folders = [sorted(str(p.relative_to(top)) for p in top.rglob("*")) for top in tmp_path.iterdir()]
    assert folders[0] == folders[1]
    assert all(len(one.seconds) == 2 and min(one.seconds) > 0 for one in found)


def test_records_are_those_of_each_seed_alone(tmp_path: Path) -> None:
    bench("quadratic_deep", "SGD", [1, 2], out=tmp_path / "together", **SHORT)
    train("quadratic_deep", "SGD", seed=2, out=tmp_path / "alone", **SHORT)
    (one,) = runs(tmp_path / "alone")
    both = runs(tmp_path / "together")
    assert [info.state for info in both] == ["finished", "finished"]
    (two,) = (info for info in both if info.id.endswith("seed_2"))
    assert (two.name, two.steps, two.reached, two.last_step, two.losses) == (
        *(one.name, one.steps, one.reached, one.last_step, one.losses),
    )
    alone, together = (open_run(info.path).table() for info in (one, two))
    assert {"Loss", "test_loss", "learning_rate"} <= alone.keys()
    assert alone.keys() == together.keys()
    for name, values in alone.items():
        np.testing.assert_array_equal(values, together[name])


def test_some_diverge(tmp_path: Path, went: list[list[int]]) -> None:
    told: dict[str, Any] = {"epochs": 6, "batch_size": 50, "lr": 2.1e-3, "momentum": 0.9}
    found = bench("two_d_rosenbrock", "Momentum", range(6), out=tmp_path / "together", **told)
    assert len(went) == 1
    assert same(
        found, [train("two_d_rosenbrock", "Momentum", seed=s, out=tmp_path / "alone", **told) for s in range(6)]
    )
    ends = {one.diverged for one in found}
    assert None in ends
    assert len(ends) > 1
    assert all(one.complete for one in found)
    assert {info.state for info in runs(tmp_path / "together")} == {"finished"}


def test_what_is_complete_stays_and_what_was_stopped_goes_on(
    tmp_path: Path, went: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cockpit.bench.run.PAUSE", 0.0)
    whole = [train("quadratic_deep", "SGD", seed=seed, out=tmp_path / "alone", **SHORT) for seed in range(5)]
    train("quadratic_deep", "SGD", seed=1, out=tmp_path / "runs", **SHORT)
    with pytest.raises(KeyboardInterrupt):
        train("quadratic_deep", "SGD", seed=2, out=tmp_path / "runs", progress=Stop(), **SHORT)
    went.clear()
    said: list[str] = []
    found = bench("quadratic_deep", "SGD", range(5), out=tmp_path / "runs", progress=Lines(said.append), **SHORT)
    assert went == [[0, 3, 4], [2]]
    assert same(found, whole)
    (told,) = (line for line in said if "already there" in line)
    assert "seed_1: already there; --again trains it anew" in told
    bench("quadratic_deep", "SGD", range(5), out=tmp_path / "runs", **SHORT)
    assert len(went) == 2
    again = bench("quadratic_deep", "SGD", range(5), out=tmp_path / "runs", resume=False, **SHORT)
    assert went[2:] == [[0, 1, 2, 3, 4]]
    assert same(again, whole)
    assert {info.state for info in runs(tmp_path / "runs")} == {"finished"}


class Stop:
    """Interrupts after an epoch."""

    def epoch(self, epoch: int, result: Result) -> None:
        if epoch == 1:
            raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: None


def test_stopped_together_they_go_on(tmp_path: Path, went: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cockpit.bench.run.PAUSE", 0.0)
    whole = bench("quadratic_deep", "SGD", [1, 2], out=tmp_path / "whole", **SHORT)
    with pytest.raises(KeyboardInterrupt):
        bench("quadratic_deep", "SGD", [1, 2], out=tmp_path / "runs", progress=Stop(), **SHORT)
    assert {info.state for info in runs(tmp_path / "runs")} == {"crashed"}
    assert not any(one.complete for one in results.find(tmp_path / "runs"))
    assert same(bench("quadratic_deep", "SGD", [1, 2], out=tmp_path / "runs", **SHORT), whole)
    assert went[2:] == [[1], [2]]  # the rest went one after the other
    assert {info.state for info in runs(tmp_path / "runs")} == {"finished"}


def test_a_folder_in_use(tmp_path: Path) -> None:
    from cockpit.bench import checkpoint

    busy = tmp_path / "quadratic_deep/SGD/lr_1e-03__epochs_2__batch_250/seed_2"
    with checkpoint.alone(busy), pytest.raises(CockpitError, match="seed_2 is being written by"):
        bench("quadratic_deep", "SGD", [1, 2, 3], out=tmp_path, **SHORT)
    assert len(bench("quadratic_deep", "SGD", [1, 2, 3], out=tmp_path, **SHORT)) == 3


class Own(torch.optim.SGD):
    """Raises where the second gradient begins with a large number."""

    most = float("inf")
    seen: ClassVar[list[float]] = []

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        ((parameter,),) = (group["params"] for group in self.param_groups)
        calls = self.state[parameter]["calls"] = self.state[parameter].get("calls", 0) + 1
        if calls == 2:
            Own.seen.append(float(parameter.grad[0]))
            if Own.seen[-1] > Own.most:
                raise ZeroDivisionError("no step")
        super().step()


@pytest.mark.parametrize(
    ("options", "together"),
    [
        ({"optimizer": Own}, [[1, 2]]),
        ({"optimizer": "LBFGS", "max_iter": 2}, [[1, 2]]),
        ({"watch": "economy"}, []),
        ({"compile": "eager"}, []),
        ({"amp": "bf16"}, []),
        ({"seeds": [1, 1]}, [[1]]),
        ({"seeds": [1]}, [[1]]),
    ],
)
def test_what_goes_in_step(
    options: dict[str, Any], together: list[list[int]], tmp_path: Path, went: list[list[int]]
) -> None:
    told = {"optimizer": "SGD", "seeds": [1, 2], "epochs": 1, "batch_size": 500, "lr": 1e-3, **options}
    found = bench("quadratic_deep", told.pop("optimizer"), told.pop("seeds"), out=tmp_path, device="cpu", **told)
    assert went == together
    assert all(one.complete for one in found)


def test_one_that_raises_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bench("quadratic_deep", Own, range(6), out=tmp_path / "whole", **SHORT)
    monkeypatch.setattr(Own, "most", sorted(Own.seen[-6:])[3])
    with pytest.raises(ZeroDivisionError, match="no step"):
        bench("quadratic_deep", Own, range(6), out=tmp_path / "runs", **SHORT)
    left = results.find(tmp_path / "runs", True)
    assert len(left) == 4
    assert same(left, [one for one in whole if one.seed in {result.seed for result in left}])
    states = [info.state for info in runs(tmp_path / "runs")]
    assert sorted(states) == sorted(["finished"] * len(left) + ["crashed"] * (6 - len(left)))
    monkeypatch.setattr(Own, "most", float("inf"))
    assert same(bench("quadratic_deep", Own, range(6), out=tmp_path / "runs", **SHORT), whole)


@pytest.mark.parametrize("optimizer", ["LA(RAdam)", "ScheduleFreeAdamW", "torch.optim:Adam"])
@pytest.mark.parametrize("problem", ["quadratic_deep", "two_d_branin"])
def test_stopped_it_goes_on_watched_or_not(
    optimizer: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state is the same kind of thing on both ways."""
    monkeypatch.setattr("cockpit.bench.run.PAUSE", 0.0)
    told: dict[str, Any] = {"epochs": 3, "batch_size": 250, "lr": 0.01, "dtype": "float64"}
    whole = train(problem, optimizer, out=tmp_path / "whole", **told)
    for first, then in ((None, None), (None, "economy"), ("economy", None)):
        out = tmp_path / f"{first}-{then}"
        with pytest.raises(KeyboardInterrupt):
            train(problem, optimizer, out=out, watch=first, progress=Stop(), **told)
        rest = train(problem, optimizer, out=out, watch=then, **told)
        assert len(rest.seconds) == 3
        for metric, values in whole.curves.items():
            assert rest.curves[metric] == pytest.approx(values, rel=0 if (first, then) == (None, None) else 1e-12)


def test_many_seeds_go_in_several_groups(
    tmp_path: Path, went: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cockpit.bench.packed.MOST", 2)
    found = bench("quadratic_deep", "SGD", range(5), out=tmp_path, epochs=1, batch_size=500)
    assert went == [[0, 1], [2, 3], [4]]
    assert [one.seed for one in found] == [0, 1, 2, 3, 4]


def test_progress_tells_the_mean(tmp_path: Path) -> None:
    said: list[str] = []
    found = bench("quadratic_deep", "SGD", [1, 2], out=tmp_path, progress=Lines(said.append), **SHORT)
    assert len(said) == 3 + 2
    mean = sum(one.curves["test_loss"][-1] for one in found) / 2
    assert said[2].startswith("quadratic_deep SGD lr 0.001 seeds 1 to 2  epoch 2/2")
    assert said[2].endswith(f"test loss {mean:.4g}")
    assert "seed_1: train loss" in said[3]


def test_random_state_is_left_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    bench("quadratic_deep", "SGD", [1, 2], out=tmp_path, **SHORT)
    assert torch.equal(before, torch.get_rng_state())
    assert packed.groups([]) == []
