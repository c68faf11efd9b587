"""Results on disk."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from tests.results.samples import made

from cockpit.core.errors import CockpitError
from cockpit.results import folder
from cockpit.results.result import Result


def test_what_is_written_is_read(tmp_path: Path) -> None:
    run = made(
        accuracies=[0.1, 0.5, 0.7], seed=43, schedule="cosine", variant={"order": "fixed"}, batch_losses=[2.0, 1.5]
    )
    file = folder.write(run, tmp_path / "a" / "b")
    assert file == tmp_path / "a" / "b" / "result.json"
    assert folder.read(file) == folder.read(tmp_path / "a" / "b") == run


def test_the_file_is_strict_json(tmp_path: Path) -> None:
    file = folder.write(made(losses=[2.0, math.nan, math.inf], diverged=1), tmp_path)
    data = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert data["curves"]["test_loss"] == [2.0, None, None]
    values = folder.read(file).curves["test_loss"]
    assert values[0] == 2.0
    assert all(map(math.isnan, values[1:]))


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    folder.write(made(), tmp_path)
    folder.write(made(seed=44), tmp_path)
    assert os.listdir(tmp_path) == ["result.json"]
    assert folder.read(tmp_path).seed == 44


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CockpitError, match="cannot be written"):
        folder.write(made(), tmp_path / "file" / "below")


def test_all_below_a_folder_are_found(tmp_path: Path) -> None:
    for seed in (44, 42, 43):
        folder.write(made(seed=seed, batch_losses=[1.0]), tmp_path / "runs" / f"seed_{seed}")
    folder.write(made(), tmp_path / ".hidden")
    found = folder.find(tmp_path)
    assert [one.seed for one in found] == [42, 43, 44]
    assert found.problems == []
    assert found[0].batch_losses == []
    assert folder.find(tmp_path, batch_losses=True)[0].batch_losses == [1.0]
    assert len(folder.find(tmp_path / "runs" / "seed_42" / "result.json")) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"format": 1, "problem', "not JSON"),
        ("[1, 2]", "holds a list"),
        ('{"format": 2}', "format 2, not 1"),
        ("{}", "format None"),
        ('{"format": 1, "curves": {}}', "lacks what a result has: KeyError 'seed'"),
    ],
)
def test_a_broken_file_is_left_out_and_named(tmp_path: Path, text: str, why: str) -> None:
    folder.write(made(), tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "result.json").write_text(text)
    found = folder.find(tmp_path)
    assert len(found) == 1
    (problem,) = found.problems
    assert why in problem
    assert str(tmp_path / "bad" / "result.json") in problem


def test_a_curve_of_an_unknown_name(tmp_path: Path) -> None:
    file = folder.write(made(), tmp_path)
    file.write_text(file.read_text().replace("train_loss", "train_perplexity"))
    with pytest.raises(CockpitError, match="a curve 'train_perplexity'"):
        folder.read(file)


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="does not exist"):
        folder.find(tmp_path / "nowhere")
    with pytest.raises(CockpitError, match="cannot be read"):
        folder.read(tmp_path / "nowhere")


def test_only_changed_files_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [folder.write(made(seed=seed), tmp_path / str(seed)) for seed in range(3)]
    folder.find(tmp_path)
    asked: list[Path] = []
    plain = folder.read

    def read(path: Any) -> Result:
        asked.append(path)
        return plain(path)

    monkeypatch.setattr(folder, "read", read)
    assert len(folder.find(tmp_path)) == 3
    assert asked == []
    folder.write(made(seed=1, losses=[9.0, 8.0, 7.0, 6.0]), files[1])
    assert folder.find(tmp_path)[1].curves["test_loss"][0] == 9.0
    assert asked == [files[1]]


def test_results_of_deepobs_are_found_too(tmp_path: Path) -> None:
    place = tmp_path / "quadratic_deep" / "AdamOptimizer" / "num_epochs__2__batch_size__128"
    place.mkdir(parents=True)
    data = {
        "optimizer_name": "AdamOptimizer",
        "optimizer_hyperparams": {"learning_rate": 0.1},
        "test_losses": [3, 2, 1],
    }
    (place / "random_seed__7__2020-01-01-10-11-12.json").write_text(json.dumps(data))
    (place / "other.json").write_text("{}")
    folder.write(made(), tmp_path / "mine")
    theirs, ours = sorted(folder.find(tmp_path), key=lambda one: one.seed)
    assert (theirs.problem, theirs.optimizer, theirs.seed, theirs.epochs) == ("quadratic_deep", "Adam", 7, 2)
    assert ours == made()


@pytest.mark.parametrize(
    ("name", "value"), [("problem", 3), ("optimizer", None), ("source", 1), ("variant", 7), ("diverged", "soon")]
)
def test_a_value_of_another_kind(tmp_path: Path, name: str, value: object) -> None:
    file = folder.write(made(), tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with pytest.raises(CockpitError, match="lacks what a result has"):
        folder.read(file)


def test_a_part_of_a_variant_that_has_another_name_now(tmp_path: Path) -> None:
    file = folder.write(made(variant={"order": "fixed", "shuffled_eval": True}), tmp_path)
    file.write_text(file.read_text().replace("shuffled_eval", "augmented_eval"))
    assert folder.read(file).variant == {"order": "fixed", "shuffled_eval": True}


def test_whether_there_is_a_result(tmp_path: Path) -> None:
    assert not folder.holds(tmp_path)
    folder.write(made(), tmp_path / "a" / "b")
    assert folder.holds(tmp_path)
