"""A computation made again gives what it gives when it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cockpit
from cockpit.core.errors import Undefined
from cockpit.core.record import Record
from cockpit.engine import native, taped
from cockpit.engine.tape import Tape, aside


def test_inputs_are_read_where_they_are() -> None:
    x, y, still = torch.randn(5, 4), torch.randn(5, 3), torch.randn(3, 4)
    labels = torch.tensor([0, 1, 2, 0, 1])

    def function() -> tuple[Tensor, ...]:
        part, filled = x[1:3].reshape(-1), torch.zeros(3)
        product = y.t() @ x
        filled.add_(product.sum(1))
        rows = torch.stack([product.mean(1), filled])
        losses = F.cross_entropy(y, labels, reduction="none")
        return part * 2, filled, rows.double(), losses, (product * still).sum(), torch.cat([rows, rows]), x.mT.clone()

    with torch.no_grad():
        tape = Tape(function, [x, y])
        for _ in range(3):
            x.set_(torch.randn(5, 4))  # type: ignore[call-overload]
            y.set_(torch.randn(6, 3)[1:])  # type: ignore[call-overload]
            for made, wanted in zip(tape(), function(), strict=True):
                assert torch.equal(made, wanted)


@pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
def test_loops_read_parts_of_inputs_where_they_are() -> None:
    """Also where an input begins in the middle of its memory, and in arrays of addresses."""
    x, y = torch.randn(6, 40), torch.randn(40)

    def function() -> tuple[Tensor, ...]:
        return native.scaled(x[2:4], 3.0), native.vector_sums([x[1], x[5], y]), native.stack([x[3], y, x[0]])

    with torch.no_grad():
        tape = Tape(function, [x, y])
        assert not tape._views, "loops need addresses, not views"
        for skipped in (0, 7):
            x.set_(torch.randn(6 * 40 + skipped)[skipped:].view(6, 40))  # type: ignore[call-overload]
            y.set_(torch.randn(40 + skipped)[skipped:])  # type: ignore[call-overload]
            for made, wanted in zip(tape(), function(), strict=True):
                assert torch.equal(made, wanted)


def test_what_looks_at_numbers_is_not_written_down() -> None:
    x = torch.randn(3)
    with pytest.raises(Undefined, match="looks at numbers"):
        Tape(lambda: x * 2 if float(x.sum()) > 0 else x, [x])


@pytest.mark.parametrize(
    "function", [lambda x: x[x > 0], torch.unique, torch.nonzero, lambda x: x.masked_select(x > 0)]
)
def test_results_whose_size_depends_on_numbers_are_not_written_down(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(9)
    with pytest.raises(Undefined, match="looks at numbers"):
        Tape(lambda: function(x), [x])
    places = torch.tensor([2, 0, 2])
    tape = Tape(lambda: (x[places], x.sort().values), [x])
    x.set_(torch.randn(9))  # type: ignore[call-overload]
    picked, ordered = tape()
    assert torch.equal(picked, x[places])
    assert torch.equal(ordered, x.sort().values)


def test_a_choice_between_ways_is_made_when_a_tape_is_written() -> None:
    x = torch.ones(3)

    def function() -> Tensor:
        with aside():
            positive = float(x.sum()) > 0
        return x * 2 if positive else x + x

    tape = Tape(function, [x])
    x.set_(torch.tensor([1.0, -5.0, 2.0]))  # type: ignore[call-overload]
    assert tape().tolist() == [2.0, -10.0, 4.0]
    assert len(tape._actions) == 1


# ---- whole steps

Records = dict[tuple[int, str], Record]
STEPS = 10


def agree(found: Records, plain: Records) -> None:
    assert found.keys() == plain.keys()
    for key, record in plain.items():
        if key[1] == "Time":
            continue
        assert found[key].reason == record.reason
        value, wanted = found[key].value, record.value
        if isinstance(wanted, float | dict):
            assert value == pytest.approx(wanted, rel=1e-5, abs=1e-9), key
        else:
            assert value == wanted, key


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 5))


def convolutional() -> nn.Module:
    """With convolutions whose gradients are mostly zero and one that has none, and with a sequence."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 5)),
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.Conv2d(6, 8, (1, 2), bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(8, 4, 2, padding=1, stride=2, groups=2),
        nn.Flatten(2),
        nn.Linear(4, 7),
        nn.LayerNorm(7),
        nn.Flatten(),
        nn.Linear(28, 5),
    )


def trained(
    optimizer: str,
    replay: str,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[nn.Module, int], None],
    make: Callable[[], nn.Module],
    quantities: str | list[str] = "economy",
) -> tuple[Records, int]:
    monkeypatch.setenv("COCKPIT_REPLAY", replay)
    torch.manual_seed(0)
    model = make()
    loss_fn, made = nn.CrossEntropyLoss(), getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
    replayed = 0
    with cockpit.watch(model, made, loss_fn, quantities=quantities, every=1, run=False) as pit:
        for step in range(STEPS):
            inputs, labels = torch.randn(64 if step != 7 else 32, 20), torch.randint(5, (64 if step != 7 else 32,))
            made.zero_grad()
            loss_fn(model(inputs), labels).backward()
            replayed += pit._tracker._program is not None
            change(model, step)
            made.step()
    return {(record.step, record.name): record for record in pit.history}, replayed


def clipped(model: nn.Module, step: int) -> None:
    if step % 3 == 0:
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def moved_by_hand(model: nn.Module, step: int) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(0.99)


def kept(model: nn.Module, step: int) -> None:
    pass


@pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
@pytest.mark.parametrize("change", [kept, clipped, moved_by_hand])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("make", [linear, convolutional])
def test_replayed_steps_have_the_same_numbers(
    make: Callable[[], nn.Module],
    optimizer: str,
    change: Callable[[nn.Module, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, none = trained(optimizer, "0", monkeypatch, change, make)
    found, replayed = trained(optimizer, "1", monkeypatch, change, make)
    assert none == 0
    assert replayed >= 3
    agree(found, plain)


@pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("make", [linear, convolutional])
def test_large_inputs_are_let_go_of(
    make: Callable[[], nn.Module], optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And numbers stay the same, those that are projected on the step before, too."""
    held: list[int] = []
    let_go = Tape.let_go

    def watched(tape: Tape[object], kept: Iterable[Tensor]) -> None:
        let_go(tape, kept)
        held.append(sum(tensor.untyped_storage().nbytes() for tensor in tape._inputs))

    plain, _ = trained(optimizer, "0", monkeypatch, kept, make)
    monkeypatch.setattr(taped, "HELD", 0)
    monkeypatch.setattr(Tape, "let_go", watched)
    found, replayed = trained(optimizer, "1", monkeypatch, kept, make)
    assert replayed >= 3
    assert held == [0] * replayed
    agree(found, plain)


@pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
@pytest.mark.parametrize(("make", "least"), [(linear, 3), (convolutional, 0)])
def test_joint_histograms_of_formed_gradients_are_not_written_down(
    make: Callable[[], nn.Module], least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ["GradHist1d", "GradHist2d", "NormTest"]
    plain, _ = trained("SGD", "0", monkeypatch, kept, make, wanted)
    found, replayed = trained("SGD", "1", monkeypatch, kept, make, wanted)
    assert replayed >= least
    assert (replayed > 0) is (least > 0)
    agree(found, plain)


@pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
@pytest.mark.parametrize("limit", ["MOST", "EACH"])
def test_large_layers_are_not_written_down(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taped, limit, 1000)
    assert trained("SGD", "1", monkeypatch, kept, convolutional)[1] == 0


@pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_steps_apart_are_replayed_too(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(replay: str) -> tuple[Records, list[int]]:
        monkeypatch.setenv("COCKPIT_REPLAY", replay)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5))
        loss_fn, made = nn.CrossEntropyLoss(), getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
        replayed: list[int] = []

        def due(step: int) -> bool:  # alone, and two in a row: with and without a line that ends there
            return step % 5 in (0, 3, 4)

        with cockpit.watch(model, made, loss_fn, quantities="economy", every=due, run=False) as pit:
            for step in range(40):
                made.zero_grad()
                loss_fn(model(torch.randn(64, 20)), torch.randint(5, (64,))).backward()
                replayed += [step] if pit._tracker._program is not None else []
                made.step()
        return {(record.step, record.name): record for record in pit.history}, replayed

    (plain, none), (found, replayed) = run("0"), run("1")
    assert none == []
    assert set(range(20, 40)) - set(replayed) == {step for step in range(20, 40) if step % 5 == 2}
    agree(found, plain)


@pytest.mark.parametrize("every", [1, 3])
def test_nothing_waits_for_the_next_tracked_step_when_there_is_a_pause(every: int) -> None:
    model = nn.Linear(6, 3)
    loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1)
    with cockpit.watch(model, optimizer, loss_fn, quantities=["NormTest"], every=every, run=False) as pit:
        for _ in range(36 * every + 2):
            optimizer.zero_grad()
            loss_fn(model(torch.randn(8, 6)), torch.randint(3, (8,))).backward()
            optimizer.step()
        if every == 1:
            with torch.no_grad():
                model(torch.randn(8, 6))  # an evaluation begins
        expected = 37 if every == 1 else 36 * every
        assert max(pit._tracker.journal.history.steps()) == expected  # not asked through ``pit``, which would wait


@pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
def test_steps_without_individual_losses_are_replayed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for replay in ("0", "1"):
        monkeypatch.setenv("COCKPIT_REPLAY", replay)
        torch.manual_seed(0)
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with cockpit.watch(model, optimizer, quantities="economy", every=1, run=False) as pit:
            for _ in range(STEPS):
                optimizer.zero_grad()
                F.cross_entropy(model(torch.randn(8, 6)), torch.randint(3, (8,))).backward()
                replayed = pit._tracker._program is not None
                optimizer.step()
        assert replayed == (replay == "1")
        found.append({(record.step, record.name): record for record in pit.history})
    agree(found[1], found[0])
    assert "no individual losses were seen" in (found[1][STEPS - 2, "Alpha"].reason or "")


class Own(nn.Module):
    """A loss without ``reduction``: no individual losses can be had."""

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels)


def test_no_step_is_lost_where_the_loss_has_no_reduction() -> None:
    model, loss_fn = nn.Linear(6, 3), Own()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cockpit.watch(model, optimizer, loss_fn, quantities="economy", every=1, run=False) as pit:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_fn(model(torch.randn(8, 6)), torch.randint(3, (8,))).backward()
            optimizer.step()
    steps = {record.step for record in pit.history if record.name == "GradNorm"}
    lines = [record for record in pit.history if record.name == "Alpha"]
    assert steps == set(range(STEPS))
    assert [record.step for record in lines] == list(range(STEPS))
    assert all("gives no individual losses" in (record.reason or "") for record in lines[:-1])
