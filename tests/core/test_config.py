"""Hyperparameters as a user has them, kept with the run."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.small import draw, watched
from torch import nn

from cockpit.core.config import hyperparameters
from cockpit.core.errors import CockpitError
from cockpit.store import StoredRun


class Kind(Enum):
    FAST = "fast"


@dataclass
class Inner:
    depth: int = 3


@dataclass
class Settings:
    lr: float = 0.1
    inner: Inner = field(default_factory=Inner)


class Awkward:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"lr": 0.1, "name": "x", "on": True, "none": None}, {"lr": 0.1, "name": "x", "on": True, "none": None}),
        (Namespace(lr=0.1, layers=[1, (2, 3)]), {"lr": 0.1, "layers": [1, [2, 3]]}),
        (SimpleNamespace(path=Path("a/b")), {"path": str(Path("a/b"))}),
        (Settings(), {"lr": 0.1, "inner": {"depth": 3}}),
        (namedtuple("Pair", "a b")(1, 2), {"a": 1, "b": 2}),
        ({1: np.float32(0.5), "t": torch.tensor(2), "k": Kind.FAST}, {"1": 0.5, "t": 2, "k": "fast"}),
        ({"act": nn.ReLU, "f": print, "odd": Awkward()}, {"act": "ReLU", "f": "print", "odd": "Awkward"}),
        ({"half": "\ud800"}, {"half": "\\ud800"}),
        ({}, {}),
    ],
)
def test_what_is_kept(given: Any, kept: dict[str, Any]) -> None:
    assert hyperparameters(given) == kept
    json.dumps(hyperparameters(given)).encode()


def test_a_config_in_itself_ends() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    assert len(json.dumps(hyperparameters(circle))) < 2000


@pytest.mark.parametrize("given", [3, "lr=1", [1], Settings])
def test_what_has_no_names_is_refused(given: Any) -> None:
    with pytest.raises(CockpitError, match=r"config is .*; give a dictionary, a Namespace or a dataclass"):
        watched(draw(4), config=given)


def test_the_run_keeps_it(tmp_path: Path) -> None:
    watched(draw(4), run=tmp_path / "run", config=Settings(lr=0.3))
    assert StoredRun(tmp_path / "run").metadata["config"] == {"lr": 0.3, "inner": {"depth": 3}}
    assert StoredRun(tmp_path / "run").damaged is None
