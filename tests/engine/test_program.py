"""A replayed step gives the numbers of a step computed as usual; here the recording is simply run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cockpit
from cockpit.attach import Watch
from cockpit.engine import digest, program
from cockpit.engine.feed import Stock
from cockpit.engine.occasion import Given
from cockpit.engine.program import Program
from cockpit.quantities import preset

Step = Callable[[], None]
STEPS = 9


class Tokens(nn.Module):
    """Looked-up tokens and positions, a tied last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 6), nn.Embedding(5, 6)
        self.body, self.last = nn.Linear(6, 6), nn.LayerNorm(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        seen = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.last(torch.tanh(self.body(seen)))).flatten(0, 1)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, groups=2), nn.BatchNorm2d(4), nn.ReLU(), nn.ConvTranspose2d(4, 3, 2, stride=2),
        nn.GroupNorm(3, 3), nn.Flatten(), nn.Linear(3 * 64, 3),
    )  # fmt: skip


def pooled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3),
    )  # fmt: skip


def drawn(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(5, *shape, generator=generator, dtype=torch.float64)


NETS: dict[str, tuple[Callable[[], nn.Module], Callable[[torch.Generator], tuple[Tensor, Tensor]]]] = {
    "perceptron": (perceptron, lambda g: (drawn((4,), g), torch.randint(3, (5,), generator=g))),
    "convolutions": (convolutions, lambda g: (drawn((2, 4, 4), g), torch.randint(3, (5,), generator=g))),
    "pooled": (pooled, lambda g: (drawn((2, 4, 4), g), torch.randint(3, (5,), generator=g))),
    "tokens": (
        Tokens,
        lambda g: (torch.randint(11, (5, 5), generator=g), torch.randint(11, (25,), generator=g)),
    ),
}


def train(
    net: str,
    optimizer: str,
    replays: list[int] | None,
    prune: Callable[[int, Any], None] | None = None,
    quantities: Any = None,
    before_update: Callable[[Any], None] = lambda model: None,
    every: int = 1,
) -> Watch:
    """Train with every quantity of the presets; with ``replays``, steps are recorded and counted there."""
    make, draw = NETS[net]
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = make().double()
    chosen: Any = getattr(torch.optim, optimizer)(model.parameters(), lr=0.05)
    loss_fn = nn.CrossEntropyLoss()
    with cockpit.watch(model, chosen, loss_fn, quantities=quantities or preset("full"), every=every, run=False) as pit:
        if replays is not None:
            pit._tracker.settings.programs.replayer = counting(replays)
        for step in range(STEPS * every):
            if prune is not None:
                prune(step, model)
            x, y = draw(generator)
            chosen.zero_grad()
            loss_fn(model(x), y).backward()
            before_update(model)
            chosen.step()
    return pit


def counting(replays: list[int]) -> Callable[[Callable[[], Any], torch.device], Callable[[], Any]]:
    def recorded(function: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
        function()

        def again() -> Any:
            replays.append(1)
            return function()

        return again

    return recorded


def assert_same(one: Watch, other: Watch) -> None:
    for step, values in one.get_output().items():
        for name, expected in values.items():
            found = other.get_output()[step][name]
            if name == "Time":
                continue
            if expected is None or found is None:
                assert expected is found, (step, name, expected, found, other.history.reasons())
            elif hasattr(expected, "counts"):
                assert expected == found, (step, name)
            else:
                rows = [list(v.values()) if isinstance(v, dict) else [v] for v in (expected, found)]
                rtol = 2e-3 if name == "HessMaxEV" else 1e-7
                np.testing.assert_allclose(rows[1], rows[0], rtol=rtol, atol=1e-12, err_msg=f"{name} at {step}")


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("net", list(NETS))
def test_a_replayed_step_is_like_any_other(net: str, optimizer: str) -> None:
    replays: list[int] = []
    replayed = train(net, optimizer, replays)
    assert len(replays) >= 2 * (STEPS - 5), "nothing was replayed"
    assert_same(train(net, optimizer, None), replayed)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("net", ["convolutions", "tokens"])
def test_recordings_share_the_memory_of_their_inputs(net: str, optimizer: str) -> None:
    """With gaps between tracked steps there is one recording for where a line begins and one for where it ends."""
    replays: list[int] = []
    replayed = train(net, optimizer, replays, quantities=preset("economy"), every=3)
    programs = replayed._tracker.settings.programs
    made = [one for one in programs._known.values() if isinstance(one, Program)]
    assert len(made) > 1
    rooms = {tensor.data_ptr() for one in made for tensor in one._fixed.tensors()}
    assert len(rooms) < sum(len(one._fixed.tensors()) for one in made)
    for one in made:
        own = [tensor.data_ptr() for tensor in one._fixed.tensors() if tensor.numel()]
        assert len(own) == len(set(own)), "two inputs of one recording in the same place"
    assert_same(train(net, optimizer, None, quantities=preset("economy"), every=3), replayed)


def test_an_occasion_without_room_leaves_the_others_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()

    def first_only(size: int, lacking: int, taken: int, device: torch.device) -> bool:
        seen.append(size)
        return len(seen) == 1

    monkeypatch.setattr(program, "_fits_on_device", first_only)
    replays: list[int] = []
    replayed = train("perceptron", "SGD", replays, quantities=preset("economy"), every=3)
    known = list(replayed._tracker.settings.programs._known.values())
    assert len(known) > 1
    assert sum(one is not None for one in known) == 1
    assert len(replays) > 3
    assert_same(train("perceptron", "SGD", None, quantities=preset("economy"), every=3), replayed)


@pytest.mark.parametrize("quantity", ["HessMaxEV", "HessTrace", "TICDiag"])
def test_curvature_alone_is_replayed(quantity: str) -> None:
    replays: list[int] = []
    replayed = train("pooled", "SGD", replays, quantities=[quantity])
    known = replayed._tracker.settings.recorded._known
    assert replays
    assert known
    assert all(known.values())
    assert_same(train("pooled", "SGD", None, quantities=[quantity]), replayed)


def test_a_parameter_that_moves_in_memory_is_not_read_where_it_was() -> None:
    def move(step: int, model: Any) -> None:
        if step == 6:
            model[0].weight.data = model[0].weight.data.clone()

    replays: list[int] = []
    replayed = train("perceptron", "SGD", replays, move)
    assert replays
    assert_same(train("perceptron", "SGD", None, move), replayed)


def test_what_is_done_by_hand_before_the_update_is_no_part_of_it() -> None:
    def decay(model: Any) -> None:
        for parameter in model.parameters():
            parameter.data.mul_(0.99)

    replays: list[int] = []
    replayed = train("perceptron", "SGD", replays, before_update=decay)
    assert replays
    assert_same(train("perceptron", "SGD", None, before_update=decay), replayed)


def test_a_frozen_parameter_leaves_the_recording() -> None:
    def freeze(step: int, model: Any) -> None:
        if step == 6:
            model[0].weight.requires_grad_(False)

    replays: list[int] = []
    replayed = train("perceptron", "SGD", replays, freeze)
    assert replays
    assert_same(train("perceptron", "SGD", None, freeze), replayed)


def test_what_a_failed_recording_has_drawn_is_let_go() -> None:
    stock, shared, own = Stock(), torch.zeros(3), torch.zeros(5)
    with stock.drawing() as draw:
        kept = draw(shared)

    def fail() -> None:
        with stock.drawing() as draw:
            assert draw(shared) is kept
            assert draw(shared) is not kept
            draw(own)
            raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        fail()
    assert stock.nbytes == kept.nbytes
    assert stock.lacks([shared]) == 0
    assert stock.lacks([shared, shared, own]) == shared.nbytes + own.nbytes


@pytest.mark.parametrize("net", ["convolutions", "tokens", "perceptron"])
def test_small_gradients_of_large_tensors_are_made_before(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "LARGE", 0)
    monkeypatch.setattr(digest, "SMALLER", 1)
    made = list[set[str]]()

    class Noted(digest.Digest):
        def __call__(self, given: Given) -> Given:
            found = super().__call__(given)
            made.append(set(found.early))
            return found

    monkeypatch.setattr(program, "Digest", Noted)
    replays = list[int]()
    assert_same(train(net, "SGD", None), train(net, "SGD", replays))
    norms = {"convolutions": {"1.weight", "1.bias", "4.weight", "4.bias"}, "tokens": {"last.weight", "last.bias"}}
    assert replays
    assert set.union(*made) >= norms.get(net, {"2.weight", "2.bias"})
