"""Ways to statistics of individual gradients, as they are asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from cockpit import watch
from cockpit.core.errors import CockpitError
from cockpit.engine import statistics
from cockpit.engine.statistics import Wanted
from cockpit.engine.ways import Way, Ways, listed
from cockpit.layers.forms import Convolved, Factored


def test_the_first_pattern_that_fits_counts() -> None:
    ways = Ways((("0.*", "form"), ("*.weight", "chunks")))
    assert [ways.of(name) for name in ("0.weight", "0.bias", "3.weight", "3.bias")] == [
        "form",
        "form",
        "chunks",
        "auto",
    ]


def test_names_are_listed_up_to_a_number() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(k) for k in range(5)], most=2) == "0, 1 and 3 more"


def convolved() -> Convolved:
    signal, response = torch.randn(3, 1, 2, 6, 6), torch.randn(3, 1, 4, 4, 4)
    return Convolved((4, 2, 3, 3), signal, response, 1, (1, 1), (0, 0), (1, 1))


@pytest.mark.parametrize("form", [convolved(), Factored((4, 5), torch.randn(3, 1, 1, 4), torch.randn(3, 1, 1, 5))])
@pytest.mark.parametrize("way", ["gram", "chunks", "form"])
def test_a_way_that_is_asked_for_is_taken(form: Convolved | Factored, way: Way) -> None:
    found = statistics.compute(form, torch.randn(form.shape), Wanted(sq_norm=True), {}, way=way)
    assert found.way == way
    assert (found.formed is not None) == (way == "form")


def trained(way: Any, optimizer: str, quantities: Any) -> Any:
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 9), nn.Tanh(), nn.Linear(9, 3))
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    with watch(model, steps, loss_fn, quantities=quantities, every=1, run=False, way=way) as pit:
        for _ in range(6):
            steps.zero_grad()
            loss_fn(model(torch.randn(8, 2, 10, 10)), torch.randint(0, 3, (8,))).backward()
            steps.step()
    return pit


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("way", ["gram", "chunks", "form", {"3.*": "form", "7.weight": "chunks"}])
def test_all_ways_lead_to_the_same_numbers(way: Any, optimizer: str) -> None:
    quantities = ["Alpha", "NormTest", "InnerTest", "OrthoTest", "CABS", "EarlyStopping", "GradHist1d", "GradHist2d"]
    expected, found = (trained(one, optimizer, quantities).get_output() for one in ("auto", way))
    assert expected.keys() == found.keys()
    for step, values in expected.items():
        for name, value in values.items():
            if isinstance(value, float):
                assert found[step][name] == pytest.approx(value, rel=1e-4)
            elif value is not None:  # elements on an edge may fall to either side of it by rounding
                assert abs(found[step][name].counts - value.counts).sum() <= 2


def test_explain_says_which_ways_were_taken() -> None:
    auto, norms = trained("auto", "SGD", "economy").explain(), trained("gram", "SGD", ["NormTest"]).explain()
    assert "chunks, formed a few samples at a time: 0.weight, 3.weight." in auto
    assert "gram, inner products of factors: 7.weight, 9.weight." in auto
    assert "gram, inner products of factors: 0.weight, 3.weight, 7.weight, 9.weight." in norms
    assert "as asked for" not in auto + norms


def test_explain_says_where_a_way_does_not_lead() -> None:
    found = trained("gram", "SGD", "economy").explain()
    assert "not gram as asked for, because quantities need single elements: 0.weight, 3.weight." in found


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("grm", "way is 'grm' for '\\*'; give one of 'auto', 'gram', 'chunks', 'form'"),
        ({"0.weight": None}, "way is None for '0.weight'"),
        (
            {"conv": "form"},
            "way names 'conv', which matches no parameter .* parameters are 0.weight, 0.bias, 3.weight",
        ),
        ({3: "form"}, "way names 3"),
        (["form"], "way is \\['form'\\]"),
    ],
)
def test_what_does_not_exist_is_refused(way: Any, said: str) -> None:
    with pytest.raises(CockpitError, match=said):
        trained(way, "SGD", "economy")


class Tied(nn.Module):
    """A weight that is looked up and multiplied with: sums of its two uses are formed in chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.words(x)).mean(1) @ self.words.weight.mT


@pytest.mark.parametrize("way", ["gram", "form"])
def test_explain_says_where_a_weight_is_used_in_several_ways(way: str) -> None:
    torch.manual_seed(0)
    model, loss_fn = Tied(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, loss_fn, quantities=["NormTest"], every=1, run=False, way=way) as pit:
        loss_fn(model(torch.randint(7, (5, 3))), torch.randint(7, (5,))).backward()
        optimizer.step()
    assert f"not {way} as asked for, because these weights have several kinds of use: words.weight." in pit.explain()
