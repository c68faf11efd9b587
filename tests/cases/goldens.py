"""Runs recorded with the original implementation, as cases."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .case import Case, sgd
from .data import Batch
from .losses import cross_entropy, mse
from .models import mlp

FOLDER = Path(__file__).parent.parent / "goldens"
GOLDENS = ("cnn_ce", "relu_mlp_ce", "sigmoid_mlp_ce", "tanh_mlp_mse")


def golden_values(name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The recorded numbers (JSON) and arrays (initial parameters, batches, histograms)."""
    with np.load(FOLDER / f"{name}.npz") as arrays:
        return json.loads((FOLDER / f"{name}.json").read_text()), dict(arrays)


@cache
def golden_case(name: str) -> Case:
    """The recorded run as a case: its model, initial parameters, batches, loss, learning rate."""
    values, arrays = golden_values(name)

    def model() -> nn.Module:
        made = _model(name).double()
        made.load_state_dict({key: torch.from_numpy(arrays[f"init/{key}"]) for key in values["params"]})
        return made

    def batches() -> list[Batch]:
        tensors = [[torch.from_numpy(arrays[f"step{t}/{key}"]) for key in "xy"] for t in range(values["steps"])]
        return [Batch((x,), y) for x, y in tensors]

    loss = mse() if name.endswith("mse") else cross_entropy()
    return Case(f"golden_{name}", model, batches, loss, sgd(values["lr"]), double_data=True)


def _model(name: str) -> nn.Module:
    if name == "cnn_ce":
        return nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2, padding=1),
            nn.ReLU(), nn.Flatten(), nn.Linear(64, 3),
        )  # fmt: skip
    if name == "tanh_mlp_mse":
        return mlp(nn.Tanh, (5, 6, 4, 2))
    return mlp({"relu_mlp_ce": nn.ReLU, "sigmoid_mlp_ce": nn.Sigmoid}[name], (7, 6, 5, 4))
