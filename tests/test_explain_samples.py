"""What ``explain`` says about samples: how many, along which axis, coupled or not, and which path statistics took."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.small import draw, individual_gradients, net, reasons, sgd, values, watch, watched
from torch import Tensor, nn

from cockpit.engine.autograd.losses import APART
from cockpit.tracking.watched import Watch

X = [x for x, _ in draw(*[6] * 4)]
MORE = draw(18)[0][0]


def contrast(model: Callable[[Tensor], Tensor]) -> Tensor:
    """Each sample against all others: a loss that couples them."""
    a, b = F.normalize(model(X[0]), dim=1), F.normalize(model(X[1]), dim=1)
    return F.cross_entropy(a @ b.T / 0.3, torch.arange(6), reduction="none")


def preference(model: Callable[[Tensor], Tensor]) -> Tensor:
    """Pairs, both halves in one call."""
    score = F.log_softmax(model(torch.cat(X[:2])), -1)[:, 0]
    return -F.logsigmoid(score[:6] - score[6:] - 0.2)


def two_batches(model: Callable[[Tensor], Tensor]) -> Tensor:
    """Labelled and unlabelled samples, not as many of one as of the other."""
    few = F.cross_entropy(model(X[0]), torch.arange(6) % 3, reduction="none")
    return torch.cat([few, 0.5 * F.cross_entropy(model(MORE), torch.arange(18) % 3, reduction="none")])


LOSSES: dict[str, tuple[Callable[[Callable[[Tensor], Tensor]], Tensor], str]] = {
    "contrast": (contrast, "the loss takes them together"),
    "preference": (preference, "the loss takes them together"),
    "two batches": (two_batches, "calls with [6, 18] samples were seen"),
}


def run(loss_of: Callable[[nn.Module, Watch], Tensor], model: nn.Module | None = None, **options: Any) -> Watch:
    model = net() if model is None else model
    optimizer = sgd(model, 0.01)
    with watch(model, optimizer, **options) as pit:
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model, pit).backward()
            optimizer.step()
    return pit


@pytest.mark.parametrize(("losses", "said"), LOSSES.values(), ids=LOSSES.keys())
def test_losses_that_couple_samples_are_seen(losses: Callable[[Any], Tensor], said: str) -> None:
    pit = run(lambda model, pit: losses(model).mean())
    assert said in pit.explain()
    assert all(row["Alpha"] is None for row in pit.get_output().values())
    assert "pit.loss" in reasons(pit, "Alpha")[0]


@pytest.mark.parametrize("losses", [entry for entry, _ in LOSSES.values()], ids=LOSSES.keys())
def test_what_pit_loss_got_are_the_samples(losses: Callable[[Any], Tensor]) -> None:
    """The remedy: then they are told apart, and everything is defined and right."""
    truth = values(individual_gradients(net(), lambda model: losses(model.forward)))
    pit = run(lambda model, pit: pit.loss(losses(model)))
    first = pit.get_output()[0]
    for name in ("NormTest", "InnerTest", "OrthoTest"):
        assert first[name] == pytest.approx(truth[name]), name
    assert first["Alpha"] is not None
    assert f"Samples: {len(losses(net()))} in a backward pass, along axis 0 of what pit.loss was given" in pit.explain()
    assert APART not in pit.explain()


class Recurrent(nn.Module):
    """Time first."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0])  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("axis", "said"), [(0, "7 in a backward pass, along axis 0"), (1, "4 in a backward pass, along axis 1")]
)
def test_a_forgotten_axis_is_seen_at_once(axis: int, said: str) -> None:
    def loss_of(model: nn.Module, pit: Watch) -> Tensor:
        return F.cross_entropy(model(torch.randn(7, 4, 5)).flatten(0, 1), torch.arange(28) % 3)

    pit = run(loss_of, Recurrent(), batch_axis=axis)
    assert f"Samples: {said} of the model's output, [7, 4, 3]." in pit.explain()


def test_the_same_samples_in_two_calls() -> None:
    pit = run(lambda model, pit: F.mse_loss(model(X[0]), model(X[1])))
    assert "the same ones in 2 calls of the model" in pit.explain()


def test_the_path_of_each_statistic() -> None:
    """Norms of long rows by an identity on factors, a histogram by its definition, an embedding by its rows."""

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.body = nn.Embedding(50, 200), nn.Linear(200, 200)

        def forward(self, x: Tensor) -> Tensor:
            return self.body(self.words(x))  # type: ignore[no-any-return]

    def loss_of(model: nn.Module, pit: Watch) -> Tensor:
        return F.cross_entropy(model(torch.arange(4)), torch.arange(4))

    pit = run(loss_of, Wide(), quantities=["NormTest", "GradHist2d"])
    (said,) = [line for line in pit.explain().splitlines() if line.startswith("Statistics: ")]
    ways = dict(part.split(" by ") for part in said.removeprefix("Statistics: ").rstrip(".").split(", "))
    assert ways["sq_norm"] == "definition and shortcut and touched rows"
    assert "definition" in ways["hist2d"]
    assert "shortcut" not in ways["hist2d"]


def test_random_samples_of_a_batch_are_said() -> None:
    pit = watched(draw(16, 16, 16), samples=4)
    assert "those of 4 random samples of each 16" in pit.explain()


def test_what_is_kept_until_the_step_ends() -> None:
    assert "KiB for each sample" in watched(draw(16, 16, 16)).explain()


def test_it_is_short_whatever_happens() -> None:
    """Many parameters that are left out for one reason, many reasons, every quantity."""
    model = nn.Sequential(*[nn.Linear(5, 5) for _ in range(30)], nn.Linear(5, 3)).double()
    for place, p in enumerate(model.parameters()):
        if place % 3 == 0:
            p.register_hook(lambda grad: grad * 2)
    optimizer, loss_fn = sgd(model, 1e-4), nn.CrossEntropyLoss()
    with watch(model, optimizer, loss_fn, "full", every=None, grace=100.0) as pit:
        for x, y in draw(6, 6, 1, 6):
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
    lines = pit.explain().splitlines()
    assert len(lines) <= 25
    assert any("and 18 more" in line for line in lines), "parameters that share a reason share a line"


def test_curvature_of_many_outputs_is_an_estimate_and_said_to_be() -> None:
    model = nn.Linear(5, 1200).double()
    optimizer, loss_fn = sgd(model), nn.CrossEntropyLoss()
    with watch(model, optimizer, loss_fn, ["HessTrace", "TICDiag"]) as pit:
        loss_fn(model(X[0]), torch.arange(6)).backward()
        optimizer.step()
    assert "Monte Carlo" in pit.explain()
    assert {record.details["curvature"] for record in pit.history} == {"ggn_mc"}
    assert all(value is not None for value in pit.get_output()[0].values())
    assert "Monte Carlo" not in watched(draw(4), quantities=["HessTrace"]).explain()
