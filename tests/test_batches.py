"""How many samples a step has, and what each of them lost: read off, given, or undefined with the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.small import (
    Batch,
    agrees,
    draw,
    expected,
    net,
    reasons,
    same,
    sgd,
    watch,
    watched,
)
from torch import Tensor, nn

from cockpit.core.errors import CockpitError
from cockpit.tracking.watched import Watch

SAMPLES = ("NormTest", "InnerTest", "OrthoTest", "GradHist1d")
INDIVIDUAL = ("Alpha", *SAMPLES)
REMEDIES = ("pit.loss", "losses=")


def run(model: nn.Module, losses_of: Any, batches: list[Batch], loss_fn: Any = None, **options: Any) -> Watch:
    """Train with ``losses_of(pit, model, x, y)`` as the number to backpropagate."""
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, **options) as pit:
        for x, y in batches:
            optimizer.zero_grad()
            losses_of(pit, model, x, y).backward()
            optimizer.step()
    return pit


# ---- functional losses


@pytest.mark.parametrize("quantities", ["economy", "business", "full"])
def test_a_functional_loss_is_as_good_as_a_module(quantities: str) -> None:
    def loss(pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return pit.loss(F.cross_entropy(model(x), y, reduction="none"))

    batches = draw(4, 5, 4)
    same(run(net(), loss, batches, quantities=quantities), watched(batches, quantities=quantities))


class Tagger(nn.Module):
    """A label for each position: [N, T, 5] -> [N, 3, T]."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).transpose(1, 2)


def tagged(*sizes: int) -> list[Batch]:
    g = torch.Generator().manual_seed(2)
    return [
        (torch.randn(n, 4, 5, generator=g, dtype=torch.float64), torch.randint(3, (n, 4), generator=g)) for n in sizes
    ]


@pytest.mark.parametrize("quantities", ["economy", "business"])
def test_a_loss_for_each_token(quantities: str) -> None:
    def functional(pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        losses = F.cross_entropy(model(x), y, reduction="none")
        assert losses.shape == y.shape
        return pit.loss(losses)

    def module(pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return loss_fn(model(x), y)

    loss_fn = nn.CrossEntropyLoss()
    one = run(Tagger(), functional, tagged(5, 3, 4), quantities=quantities)
    other = run(Tagger(), module, tagged(5, 3, 4), loss_fn, quantities=quantities)
    same(one, other)
    assert one.get_output()[0]["Alpha"] is not None
    elements = sum(p.numel() for p in net().parameters())
    assert [row["GradHist1d"].counts.sum() for row in one.get_output().values()] == [
        5 * elements,
        3 * elements,
        4 * elements,
    ]


def test_a_functional_loss_on_steps_that_are_not_tracked() -> None:
    seen = []

    def loss(pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        losses = F.cross_entropy(model(x), y, reduction="none")
        mean = pit.loss(losses)
        seen.append(torch.equal(mean, losses.mean()) and mean.requires_grad)
        return mean

    pit = run(net(), loss, draw(*[4] * 6), every=3)
    assert seen == [True] * 6
    assert list(pit.get_output()) == [0, 3]


def test_a_functional_loss_with_more_around_it() -> None:
    """Scaled by the user, as for accumulation: individual losses follow."""

    def scaled(pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return 3 * pit.loss(F.cross_entropy(model(x), y, reduction="none"))

    def direct(pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return pit.loss(3 * F.cross_entropy(model(x), y, reduction="none"))

    batches = draw(4, 5, 4)
    same(run(net(), scaled, batches), run(net(), direct, batches))


# ---- models that return their own loss


@dataclass
class Result:
    loss: Tensor
    logits: Tensor
    losses: Tensor


class OwnLoss(nn.Module):
    """A model that is given the labels and computes the loss itself."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.body, self.form = net(), form

    def forward(self, x: Tensor, labels: Tensor) -> Any:
        logits = self.body(x)
        losses = F.cross_entropy(logits, labels, reduction="none")
        loss = losses.mean()
        if self.form == "dict with losses":
            return {"loss": loss, "logits": logits, "losses": losses}
        if self.form == "object with losses":
            return Result(loss, logits, losses)
        if self.form == "dict":
            return {"loss": loss, "logits": logits}
        return (loss, logits) if self.form == "tuple" else loss

    def loss(self, pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        out = model(x, labels=y)
        if isinstance(out, dict):
            return out["loss"]
        return out if isinstance(out, Tensor) else out[0] if isinstance(out, tuple) else out.loss


def own(form: str, batches: list[Batch], **options: Any) -> Watch:
    model = OwnLoss(form)
    return run(model, model.loss, batches, **options)


@pytest.mark.parametrize("form", ["dict with losses", "object with losses"])
def test_own_loss_with_individual_losses_by_convention(form: str) -> None:
    batches = draw(4, 5, 4)
    same(own(form, batches), watched(batches))


@pytest.mark.parametrize("form", ["dict", "tuple", "scalar"])
def test_own_loss_with_a_callable_for_individual_losses(form: str) -> None:
    model = OwnLoss(form)

    def losses(output: Any, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(model.body(x), labels, reduction="none")

    batches = draw(4, 5, 4)
    same(run(model, model.loss, batches, losses=losses), watched(batches))


@pytest.mark.parametrize("form", ["dict", "tuple", "scalar"])
def test_own_loss_is_read_from_its_graph(form: str) -> None:
    """Nobody tells the individual losses: everything is as with a loss module."""
    batches = draw(4, 5, 4)
    pit, module = own(form, batches), watched(batches).get_output()
    for step, row in pit.get_output().items():
        for name in ("Alpha", "NormTest", "InnerTest", "OrthoTest"):
            assert row[name] == pytest.approx(module[step][name])
        assert (row["GradHist1d"].counts == module[step]["GradHist1d"].counts).all()


def test_a_loss_that_cannot_be_read() -> None:
    """What needs individual losses is undefined, with the operation and the remedy; the rest is right."""

    def root_mean_square(pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return (model(x) - F.one_hot(y, 3)).square().mean().sqrt()

    pit = run(net(), root_mean_square, draw(4, 5, 4))
    assert all(row["Alpha"] is None and row["NormTest"] is not None for row in pit.get_output().values())
    reason = next(reason for reason in reasons(pit, "Alpha") if "further step" not in reason)
    assert "Sqrt" in reason
    assert all(remedy in reason for remedy in REMEDIES)
    assert reason in pit.explain()


@pytest.mark.parametrize(
    "losses",
    [
        lambda output, *args, **kwargs: 1 / 0,
        lambda output, *args, **kwargs: torch.zeros(()),
        lambda output, *args, **kwargs: torch.ones(2, 2),
        lambda output: torch.ones(4),
    ],
    ids=["raises", "a scalar", "another size", "other arguments"],
)
def test_a_callable_that_does_not_give_losses(losses: Any) -> None:
    pit = own("dict", draw(4, 4), losses=losses)
    assert pit.get_output()[0]["Alpha"] is None
    assert len(reasons(pit, "Alpha")[0]) > 10
    assert pit.get_output()[0]["NormTest"] is not None


# ---- the batch size


class WithTable(nn.Module):
    """The first argument is shared by all samples: only the second has a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net()

    def forward(self, table: Tensor, index: Tensor) -> Tensor:
        return self.body(table[index])


def looked_up(batches: list[Batch], **options: Any) -> Watch:
    model, loss_fn = WithTable(), nn.CrossEntropyLoss()
    table = torch.cat([x for x, _ in batches])
    starts = [sum(len(x) for x, _ in batches[:k]) for k in range(len(batches))]
    rows = [(torch.arange(start, start + len(x)), y) for start, (x, y) in zip(starts, batches, strict=True)]
    return run(model, lambda pit, model, i, y: loss_fn(model(table, i), y), rows, loss_fn, **options)


@pytest.mark.parametrize("batch_size", [4, lambda table, index: len(index)], ids=["number", "callable"])
def test_the_batch_size_is_given(batch_size: Any) -> None:
    batches = draw(4, 4, 4)
    same(looked_up(batches, batch_size=batch_size, quantities="business"), watched(batches, quantities="business"))


def test_a_batch_size_that_changes() -> None:
    batches = draw(4, 6, 2)
    same(looked_up(batches, batch_size=lambda table, index: len(index)), watched(batches))


def test_the_batch_size_as_the_output_shows_it() -> None:
    """Without a word: right, or undefined with the remedy."""
    batches = draw(4, 4, 4)
    pit, truth = looked_up(batches), watched(batches).get_output()
    for step, row in pit.get_output().items():
        for name in ("NormTest", "InnerTest", "OrthoTest"):
            assert row[name] is None or row[name] == pytest.approx(truth[step][name])


@pytest.mark.parametrize("wrong", [3, 5, 8, 1000])
def test_a_batch_size_that_cannot_be(wrong: int) -> None:
    """Undefined, not wrong."""
    pit = watched(draw(4, 4), batch_size=wrong)
    for row in pit.get_output().values():
        assert [row[name] for name in INDIVIDUAL] == [None] * len(INDIVIDUAL)
        assert all(value > 0 for value in row["GradNorm"].values())
    assert reasons(pit, "NormTest")


@pytest.mark.parametrize(
    "batch_size",
    [lambda *args: 1 / 0, lambda *args: "four", lambda *args: None, lambda *args: 0, lambda *args: -4, lambda: 4],
    ids=["raises", "a word", "nothing", "zero", "negative", "other arguments"],
)
def test_a_callable_that_gives_no_batch_size(batch_size: Any) -> None:
    pit = watched(draw(4, 4), batch_size=batch_size)
    for row in pit.get_output().values():
        assert [row[name] for name in INDIVIDUAL] == [None] * len(INDIVIDUAL)
        assert all(value > 0 for value in row["GradNorm"].values())
    assert reasons(pit, "NormTest")


class Whole(nn.Module):
    """A model that holds its data: called with nothing, returns a number."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.body, self.batch = net(), batch

    def forward(self) -> Tensor:
        return F.cross_entropy(self.body(self.batch[0]), self.batch[1])


def test_a_batch_size_that_cannot_be_known_says_how_to_give_it() -> None:
    (batch,) = draw(5)
    pit = run(Whole(batch), lambda pit, model, x, y: model(), [batch, batch])
    for row in pit.get_output().values():
        assert [row[name] for name in INDIVIDUAL] == [None] * len(INDIVIDUAL)
        assert isinstance(row["Loss"], float)
        assert row["GradNorm"]
    assert "batch_size=" in reasons(pit, "NormTest")[0]
    assert "batch_size=" in pit.explain()


@pytest.mark.parametrize("batch_size", [5, lambda: 5])
def test_a_model_that_holds_its_data_with_the_batch_size_given(batch_size: Any) -> None:
    (batch,) = draw(5)
    model = Whole(batch)
    truth = expected(model.body, *batch)
    truth["GradNorm"] = {f"body.{name}": value for name, value in truth["GradNorm"].items()}
    pit = run(model, lambda pit, model, x, y: model(), [batch], batch_size=batch_size)
    agrees(pit.get_output()[0], truth)


def test_a_model_that_is_not_called_itself() -> None:
    """Layers called by hand: the loss module still shows the batch."""
    loss_fn, batches = nn.CrossEntropyLoss(), draw(4, 5)
    by_hand = run(net(), lambda pit, model, x, y: loss_fn(model[4](model[:4](x)), y), batches, loss_fn)
    same(by_hand, watched(batches))


# ---- another axis


class TimeFirst(nn.Module):
    """A recurrent net, [T, N, 5] -> [T, N, 3]."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.head = nn.GRU(5, 4, batch_first=batch_first), nn.Linear(4, 3)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0])


@pytest.mark.parametrize("sizes", [(5, 3), (4, 4)])  # 4: as many samples as positions
def test_samples_along_the_second_axis(sizes: tuple[int, ...]) -> None:
    loss_fn, batches = nn.CrossEntropyLoss(), tagged(*sizes)

    def loss(pit: Watch, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return loss_fn(model(x).flatten(0, 1), y.flatten())

    first = run(TimeFirst(True), loss, batches, loss_fn, batch_axis=0)
    swapped = [(x.transpose(0, 1).contiguous(), y.T.contiguous()) for x, y in batches]
    second = run(TimeFirst(False), loss, swapped, loss_fn, batch_axis=1)
    same(first, second, rel=1e-6)
    assert first.get_output()[0]["Alpha"] is not None


# ---- what pit.loss does not take


@pytest.mark.parametrize("losses", [torch.ones(()), 0.5, [0.5, 0.25], None])
def test_pit_loss_wants_individual_losses(losses: Any) -> None:
    model = net()
    with watch(model, sgd(model)) as pit, pytest.raises(CockpitError, match='reduction="none"'):
        pit.loss(losses)
