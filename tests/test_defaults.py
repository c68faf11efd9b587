"""What torch makes where nothing is said, ``torch.set_default_dtype`` and ``set_default_device``, changes no number."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tests.watched import all_quantities, variant
from torch import Tensor, nn

import cockpit
from cockpit.core.histogram import Histogram
from cockpit.quantities import HessTrace, TICDiag

SOURCE = Path(cockpit.__file__).parent
OURS = ("engine", "layers", "quantities", "tracking")  # and what lies beside them
FACTORIES = {"empty", "empty_strided", "zeros", "ones", "full", "tensor", "as_tensor", "asarray", "scalar_tensor"}
DRAWN = {"rand", "randn", "normal", "linspace", "logspace", "eye", "range"}
WHOLE = {"arange", "randint", "randperm", "tril_indices", "triu_indices"}  # of integers, whatever the default is
CLOCK = ("Time", "tracking_seconds")


class Tokens(nn.Module):
    """Looked-up tokens, attention among them."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(5, 4), nn.Linear(4, 5)
        self.body = nn.TransformerEncoderLayer(4, 2, 4, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.tokens(x))).mT  # type: ignore[no-any-return]


class Own(nn.Module):
    """A loss whose second derivatives are not known in closed form."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return torch.logaddexp(output.sum(1) - target.sum(1), output.prod(1)).mean()


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))


def pooled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(3, 3),
    )  # fmt: skip


def normalised() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, groups=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.LayerNorm(16), nn.Linear(16, 3),
    )  # fmt: skip


class Training(NamedTuple):
    net: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    targets: Callable[[], Tensor]
    loss: Callable[[], nn.Module] = nn.CrossEntropyLoss
    quantities: Any = "full"
    steps: int = 8
    momentum: float = 0.5  # without, an update is a multiple of the gradient


def classes() -> Tensor:
    return torch.randint(3, (5,))


def everything() -> list[Any]:
    estimates = [variant(HessTrace, f"HessTrace[{k}]", curvature=k, samples=2) for k in ("hutchinson", "ggn_mc")]
    return [*all_quantities(), *estimates, variant(TICDiag, "TICDiag[ggn_mc]", curvature="ggn_mc")]


FLAT, IMAGES = lambda: torch.randn(5, 4), lambda: torch.randn(5, 2, 4, 4)
TRAININGS = {
    "perceptron, economy": Training(perceptron, FLAT, classes, quantities="economy", momentum=0.0),
    "perceptron, business": Training(perceptron, FLAT, classes, quantities="business"),
    "perceptron, everything": Training(perceptron, FLAT, classes, quantities=everything),
    "perceptron, squares": Training(perceptron, FLAT, lambda: torch.randn(5, 3), nn.MSELoss),
    "perceptron, own loss": Training(perceptron, FLAT, lambda: torch.randn(5, 3), Own, "business"),
    "pooled, economy": Training(pooled, IMAGES, classes, quantities="economy", steps=12),
    "pooled, everything": Training(pooled, IMAGES, classes, quantities=everything, steps=5),
    "normalised": Training(normalised, IMAGES, classes),
    "tokens": Training(Tokens, lambda: torch.randint(5, (4, 3)), lambda: torch.randint(5, (4, 3))),
}


class Outcome(NamedTuple):
    records: list[Any]
    weights: list[Tensor]


def trained(training: Training, default: Callable[[], None] = lambda: None) -> Outcome:
    """The default is changed when everything of the user's is there."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, loss_fn = training.net(), training.loss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=training.momentum)
        batches = [(training.inputs(), training.targets()) for _ in range(training.steps)]
        default()
        wanted = training.quantities if isinstance(training.quantities, str) else training.quantities()
        with cockpit.watch(model, optimizer, loss_fn, quantities=wanted, every=1, run=False) as pit:
            for x, y in batches:
                optimizer.zero_grad()
                torch.autograd.backward(loss_fn(model(x), y))  # inside Tensor.backward a default device is not heeded
                optimizer.step()
        records = [told(record) for record in pit.history]
    return Outcome(records, [value.detach() for value in model.state_dict().values()])


def told(record: Any) -> Any:
    """A record without what the clock says; two numbers that are none are the same."""
    if record.name in CLOCK:
        return record[:3]
    value = record.value
    if isinstance(value, Histogram):
        names, places, counts = value.sparse()
        value = value.edges, names, places.tolist(), counts.tolist()
    return *record[:3], repr(value), record.reason, repr(dict(record.details))


@cache
def usual(name: str) -> Outcome:
    return trained(TRAININGS[name])


def double() -> None:
    torch.set_default_dtype(torch.float64)


def nowhere() -> None:
    """As a GPU would be, for what is on a CPU: a tensor that is made there has no address and no numbers."""
    torch.set_default_device("meta")


def rough() -> None:
    """Both, with numbers in which nothing can be counted."""
    torch.set_default_dtype(torch.bfloat16)
    nowhere()


@pytest.fixture
def _restored() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("default", [double, nowhere, rough])
@pytest.mark.parametrize("name", TRAININGS)
def test_another_default_changes_nothing(name: str, default: Callable[[], None]) -> None:
    expected = usual(name)
    found = trained(TRAININGS[name], default)
    differences = [pair for pair in zip(found.records, expected.records, strict=True) if pair[0] != pair[1]]
    assert not differences, f"{len(differences)} of {len(expected.records)} records, first {differences[0]}"
    assert all(torch.equal(one, other) for one, other in zip(found.weights, expected.weights, strict=True))


def test_nothing_is_left_unsaid() -> None:
    """Also not in what runs on a GPU only."""
    files = [*SOURCE.glob("*.py"), *(path for folder in OURS for path in (SOURCE / folder).rglob("*.py"))]
    unsaid = []
    for path in files:
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            of, name = call.func.value, call.func.attr
            if not isinstance(of, ast.Name) or of.id != "torch" or name not in FACTORIES | DRAWN | WHOLE:
                continue
            said = {keyword.arg for keyword in call.keywords}
            if not {"device", *(() if name in WHOLE else ("dtype",))} <= said:
                unsaid.append(f"{path.relative_to(SOURCE)}:{call.lineno}: torch.{name}")
    assert not unsaid, "\n".join(unsaid)
