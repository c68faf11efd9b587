"""What the experiments of this folder share: a command line, a plain chart, and a verdict."""

import argparse
import sys
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.nn.functional as F

from cockpit import CockpitError
from cockpit.panels import Panel
from cockpit.plots.figure import draw
from cockpit.problems import Variant, get
from cockpit.problems.data.fetch import default_place
from cockpit.problems.digits import draw as draw_digits

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
LIGHT, GREY = "#56B4E9", "#8A8F98"


def options(about: str, figure: str, **more: str) -> argparse.Namespace:
    """Read the command line; ``more`` are the names of further options, and what they do."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of weights, data and batches (default: 0)")
    parser.add_argument("--full", action="store_true", help="the paper's setting, on its data; else a minute's work")
    parser.add_argument("-o", metavar="FILE", type=Path, default=Path(figure), help=f"the figure (default: {figure})")
    for name, does in more.items():
        parser.add_argument(f"--{name}", help=does)
    sys.excepthook = _briefly
    return parser.parse_args()


def _briefly(kind: Any, error: Any, trace: Any) -> None:
    """Say in a sentence what is missing, such as a data set: what to fetch, and where to put it."""
    if not issubclass(kind, CockpitError):
        sys.__excepthook__(kind, error, trace)
        return
    print(error, file=sys.stderr)
    raise SystemExit(2)


def photographs(seed: int, cifar10: bool, count: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pictures of 32 x 32 with values from 0 to 255, and their labels: of CIFAR-10, or digits in two colours."""
    draws = torch.Generator().manual_seed(seed)
    if cifar10:
        train = get("cifar10_3c3d").data(default_place(), Variant()).train
        chosen = torch.randperm(len(train), generator=draws)[:count]
        return train.inputs[chosen].float(), train.targets[chosen]
    digits, labels = (part[:count] for part in draw_digits("train", seed).tensors)
    ink, paper = (torch.rand(count, 3, 1, 1, generator=draws) / 2 + light for light in (0, 0.5))
    shade = F.interpolate(0.15 + 0.4 * digits, size=32, mode="bilinear").clamp(0, 1)
    return (255 * (shade * ink + (1 - shade) * paper)).round(), labels


def chart(title: str, rows: dict[str, list[dict[str, Any]]], layers: list[dict[str, Any]], note: str = "") -> Panel:
    """Return a panel of Vega-Lite layers over named rows."""
    return Panel(title, title, "more", "", "", (), {"layer": layers}, rows, note)


def axis(field: str, title: str | None, **scale: Any) -> dict[str, Any]:
    """Encode a number."""
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False, "nice": False, **scale}}


def save(file: Path, panels: list[Panel], title: str, runs: Any = (), columns: int = 3, size: Any = (230, 150)) -> None:
    """Draw panels side by side into a file: PNG, SVG or PDF."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(draw(panels, title, runs, file.suffix[1:], columns=columns, size=size))
    print(f"figure   {file}")


def verdict(claims: dict[str, bool], replaced: dict[str, bool] | None = None) -> NoReturn:
    """Print each part of the claim and whether it holds, then the verdict; exit with 1 if it does not hold.

    What was claimed first, and ``replaced`` by what was measured, is printed and does not count.
    """
    for claim, holds in (replaced or {}).items():
        print(f"{'yes' if holds else 'no':8} {claim} (replaced by what was measured)")
    for claim, holds in claims.items():
        print(f"{'yes' if holds else 'no':8} {claim}")
    print("holds" if all(claims.values()) else "does not hold")
    raise SystemExit(0 if all(claims.values()) else 1)
