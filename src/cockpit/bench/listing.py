"""All problems in a list: what they are, and whether their data are there."""

import json
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.table import Table

from cockpit import problems
from cockpit.plots.console import console
from cockpit.problems._base import Problem
from cockpit.problems.data.fetch import default_place

# Folders of data, by what the names of problems begin with; data of the others are made, not stored.
DATA = {
    "mnist": "mnist",
    "fmnist": "fashion_mnist",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
    "svhn": "svhn",
    "imagenet": "imagenet",
    "tolstoi": "tolstoi",
    "covertype": "covertype",
}
GROUPS = ("small", "large", "modern")
HEADINGS = ("problem", "parameters", "batch", "epochs", "target", "group", "data")
WIDE = 110  # characters of a line that shows what a problem is, too


def show(data_dir: Path | None, as_json: bool) -> None:
    """Print the list."""
    found = rows(data_dir or default_place().folder)
    if as_json:
        print(json.dumps({"problems": found}, indent=2))
        return
    screen = console()
    wide = screen.width >= WIDE
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in HEADINGS:
        right = heading in ("parameters", "batch", "epochs")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    if wide:
        table.add_column("what")
    for row in found:
        table.add_row(*cells(row), *([row["summary"]] if wide else []))
    screen.print(table)


def rows(folder: Path) -> list[dict[str, Any]]:
    """A row for each problem; ``data_there`` is None where nothing has to be there."""
    return [_row(problems.get(name), folder) for name in problems.names()]


def cells(row: dict[str, Any]) -> list[str]:
    """A row as it is printed."""
    target = row["target"]
    goal = "" if target is None else f"{target:.2%}" if row["metric"] == "accuracy" else f"loss {target:.4g}"
    there = {True: "there", False: "missing", None: "made"}[row["data_there"]]
    numbers = ["" if row[key] is None else str(row[key]) for key in ("batch_size", "epochs")]
    return [row["name"], f"{row['parameters']:,}", *numbers, goal, row["group"] or "", there]


def _row(problem: Problem, folder: Path) -> dict[str, Any]:
    names = {"batch_size", "epochs", "target", "metric", "l2", "paper"}
    return {
        "name": problem.name,
        "summary": problem.summary,
        "parameters": parameters(problem),
        **{name: getattr(problem, name) for name in sorted(names)},
        "group": next((group for group in GROUPS if problem.name in problems.group(group)), None),
        "data": DATA.get(problem.name.split("_")[0]),
        "data_there": data_there(problem.name, folder),
    }


def parameters(problem: Problem) -> int:
    """Number of trainable numbers, counted without making them."""
    with torch.device("meta"):
        model = problem.model(0)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def data_there(name: str, folder: Path) -> bool | None:
    """Whether the folder of a problem's data holds anything; None if it needs none."""
    dataset = DATA.get(name.split("_")[0])
    if dataset is None:
        return None
    place = folder / dataset
    return place.is_dir() and any(not path.name.startswith(".") for path in place.iterdir())
