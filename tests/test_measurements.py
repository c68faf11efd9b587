"""Steps that are measured together give, to the last bit, the records of steps measured one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from cockpit.engine.block import Block
from torch import Tensor, nn

import cockpit
from cockpit import measurements
from cockpit.core.histogram import Histogram
from cockpit.core.record import Record
from cockpit.engine import native
from cockpit.quantities import Loss
from cockpit.quantities._base import Series
from cockpit.tracking.attach import Watch
from cockpit.tracking.measurements import Measurements, Together, Waiting

Change = Callable[[int, nn.Module, Any], None]
STEPS = 90
TAPED = pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")
BUSINESS = ["CABS", "MeanGSNR", "EarlyStopping", "HessTrace", "TICDiag", "GradHist2d", "UpdateSize", "Alpha", "Loss"]


class Sink:
    """Takes what is handed over, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[Record]] = []

    def append(self, records: Sequence[Record]) -> None:
        self.calls.append(list(records))


def again(function: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
    """A recording as on a GPU, which is simply run again."""
    function()
    return function


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def trained(
    *,
    quantities: Any = "economy",
    optimizer: Callable[[nn.Module], Any] = lambda model: torch.optim.SGD(model.parameters(), lr=0.05),
    make: Callable[[], nn.Module] = perceptron,
    taped: bool = False,
    every: int = 1,
    change: Change = lambda step, model, x: None,
    loss: Callable[[nn.Module, Tensor, int], Any] = lambda model, value, step: value,
    size: int = 5,
) -> tuple[Watch, Sink]:
    """Train, with steps replayed as on a GPU or from a tape; ``change`` may meddle before each step."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = make().to(torch.float32 if taped else torch.float64)
        steps, loss_fn, sink = optimizer(model), nn.CrossEntropyLoss(), Sink()
        with cockpit.watch(model, steps, loss_fn, quantities=quantities, every=every, run=False) as pit:
            if not taped:
                pit._tracker.settings.programs.replayer = again
            pit._tracker.journal.sink = sink
            for step in range(STEPS * every):
                x = torch.randn(size, 4).to(torch.float32 if taped else torch.float64)
                change(step, model, x)
                steps.zero_grad()
                loss(model, loss_fn(model(x), torch.randint(3, (size,))), step).backward()
                steps.step()
    return pit, sink


class Comparison:
    """Measures every batch also step by step, and counts what went which way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.together: Counter[str] = Counter()
        self.singly: Counter[str] = Counter()
        self.dissolved = 0
        self.differences: list[Any] = []  # an assertion inside would only send the steps the other way
        monkeypatch.setattr(measurements, "LATE", 60.0)
        records, init, measured = Together.records, Together.__init__, measurements._measured

        def compared(made: Together) -> dict[int, tuple[Sequence[Record], ...]]:
            found = records(made)
            singly = self.singly.copy()
            for group, block in made._groups:
                for entry in group if block is not None else ():
                    self._compare(entry, found[id(entry)])
            self.singly = singly
            self.together["steps"] += len(found)
            for group, block in made._groups:
                for quantities, _ in group[0].quantities if block is not None else ():
                    self.together.update({quantity.name: len(group) for quantity in quantities})
            return found

        def made(it: Together, entries: Sequence[Waiting], *others: Any) -> None:
            init(it, entries, *others)
            self.dissolved += sum(len(group) for group, block in it._groups if block is None)

        def counted(quantity: Any, step: Any, under: int) -> Record:
            self.singly[quantity.name] += 1
            return measured(quantity, step, under)

        monkeypatch.setattr(Together, "records", compared)
        monkeypatch.setattr(Together, "__init__", made)
        monkeypatch.setattr(measurements, "_measured", counted)

    def _compare(self, entry: Waiting, found: tuple[Sequence[Record], ...]) -> None:
        """With what the step gives on its own; its line is drawn anew."""
        step = entry.step
        unsettled = step.unsettled() if entry.check is not None else set()
        if entry.arriving is not None:
            entry.arriving.arrive(step)
        line = [] if entry.leaving is None else [repr((entry.leaving.length, entry.leaving.end))]
        if entry.leaving is not None:
            entry.leaving.leave(step)
            line.append(repr((entry.leaving.length, entry.leaving.end)))
        asked = [(group, step.step + shift) for group, shift in entry.quantities]
        alone = [[measurements._measured(quantity, step, under) for quantity in group] for group, under in asked]
        same = [list(map(whole, part)) for part in alone] == [list(map(whole, part)) for part in found]
        if not same or unsettled or len(set(line)) > 1:
            self.differences.append((step.step, unsettled, line, alone, found))


def whole(record: Record) -> Any:
    return *record[:3], plain(record.value), record.reason, dict(record.details)


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Comparison]:
    made = Comparison(monkeypatch)
    yield made
    assert not made.differences
    assert "one by one" not in caplog.text


def groups(model: nn.Module) -> Any:
    first, second = list(model.parameters())[:2], list(model.parameters())[2:]
    return torch.optim.SGD([{"params": first, "lr": 0.1}, {"params": second}], lr=0.02, momentum=0.9)


OPTIMIZERS: dict[str, Callable[[nn.Module], Any]] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.05),
    "Adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.01),
    "groups": groups,
}


@pytest.mark.parametrize("taped", [False, pytest.param(True, marks=TAPED)])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_usual_steps_are_measured_together(comparison: Comparison, optimizer: str, taped: bool) -> None:
    pit, _ = trained(optimizer=OPTIMIZERS[optimizer], taped=taped)
    assert comparison.together["steps"] >= STEPS - 2 * measurements.SAMPLED
    assert len(comparison.together) == 11
    singly = comparison.singly
    assert max(singly.values()) <= STEPS - comparison.together["steps"] + 1, singly
    assert not pit.history.reasons()["Alpha"].keys() - {"no further step was taken"}


def test_other_quantities_go_through_the_same_queue(comparison: Comparison) -> None:
    pit, _ = trained(quantities=BUSINESS, optimizer=groups)
    assert comparison.together["CABS"] > 0
    assert comparison.singly["CABS"] >= STEPS  # each on its own
    assert comparison.singly["GradHist2d"] < STEPS / 2
    assert all(pit.get_output()[STEPS - 2][name] is not None for name in BUSINESS)


def test_lines_between_steps_of_two_kinds(comparison: Comparison) -> None:
    pit, _ = trained(every=2)
    assert comparison.together["Alpha"] >= 32
    assert comparison.singly["Alpha"] < STEPS / 2
    assert sum(record.value is not None for record in pit.history.series("Alpha")) >= STEPS - 2


def test_a_step_at_which_a_line_begins_and_nothing_else(comparison: Comparison) -> None:
    pit, _ = trained(quantities=["Alpha"], every=2)
    assert comparison.together["steps"] > STEPS
    assert comparison.singly["Alpha"] < STEPS / 2
    assert sum(record.value is not None for record in pit.history.series("Alpha")) >= STEPS - 2


def infinite(step: int, model: nn.Module, x: Tensor) -> None:
    """A batch that breaks the parameters, mended before the next."""
    parameters = list(model.parameters())
    if step == 60:
        model.kept = [parameter.detach().clone() for parameter in parameters]  # type: ignore[assignment]
        x[0] = torch.inf
    if step == 61:
        with torch.no_grad():
            for parameter, old in zip(parameters, model.kept, strict=True):  # type: ignore[call-overload]
                parameter.copy_(old)


def nothing(step: int, model: nn.Module, x: Tensor) -> None:
    """Without biases, no gradient."""
    if step in (60, 61, 70):
        x.zero_()


def bare() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3, bias=False))


@pytest.mark.parametrize(("change", "make"), [(infinite, perceptron), (nothing, bare)])
def test_an_unusual_step_between_usual_ones(comparison: Comparison, change: Change, make: Any) -> None:
    pit, _ = trained(change=change, make=make)
    assert comparison.together["steps"] >= STEPS - 2 * measurements.SAMPLED
    reasons = pit.history.reasons()
    assert any(60 in steps for steps in reasons["NormTest"].values())
    assert any(60 in steps for steps in reasons["Alpha"].values())
    assert all(62 not in steps and 58 not in steps for of in reasons.values() for steps in of.values())
    assert comparison.singly["NormTest"] > STEPS / 2  # all of that block
    assert comparison.singly["Time"] < STEPS / 2


def penalty(model: nn.Module, value: Tensor, step: int) -> Tensor:
    weight = torch.tensor(0.0 if step < 60 else 0.3, dtype=torch.float64)
    return value + weight * sum((p.square().sum() for p in model.parameters()), torch.zeros((), dtype=torch.float64))


def test_a_regularisation_term_appears(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    pit, _ = trained(loss=penalty)
    assert comparison.together["steps"] > 0
    assert comparison.dissolved > 1  # the block in which it appeared
    assert pit._tracker.coverage.regularised
    assert any("regularisation" in reason for reason in pit.history.reasons()["NormTest"])
    assert pit.get_output()[STEPS - 1]["NormTest"] is not None


# ---- what is recorded, in which order


def one_at_a_time(self: Measurements, entries: list[Waiting]) -> None:
    for entry in entries:
        self._do(entry)
        self._waiting.popleft()


def plain(value: Any) -> str:
    """All there is to a value; two that are not numbers are the same."""
    if isinstance(value, Histogram):
        names, places, counts = value.sparse()
        return f"{value.edges} {names} {places.dtype} {places.tolist()} {counts.dtype} {counts.tolist()}"
    return repr(value)


def told(record: Record) -> Any:
    """A record without what the clock says."""
    return record[:3] if record.name in ("Time", "tracking_seconds") else whole(record)


@pytest.mark.parametrize(("taped", "every"), [(False, 1), (False, 2), pytest.param(True, 1, marks=TAPED)])
def test_nothing_is_lost_and_the_order_is_the_same(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch, taped: bool, every: int
) -> None:
    fast, first = trained(taped=taped, every=every, change=infinite)
    assert comparison.together["steps"] > STEPS / 2
    monkeypatch.setattr(Measurements, "_do_together", one_at_a_time)
    slow, second = trained(taped=taped, every=every, change=infinite)
    assert len(first.calls) > STEPS
    for call, other in zip(first.calls, second.calls, strict=True):
        assert list(map(told, call)) == list(map(told, other))
    assert list(map(told, fast._tracker.journal)) == list(map(told, slow._tracker.journal))
    for mine, theirs in zip(fast._tracker.quantities, slow._tracker.quantities, strict=True):
        assert list(mine.output) == list(theirs.output)
        if mine.name != "Time":
            assert list(map(plain, mine.output.values())) == list(map(plain, theirs.output.values()))


# ---- faults, and quantities of the user's


@pytest.mark.parametrize("where", [(Block, "settled"), (Loss, "measure_together"), (measurements, "leave_together")])
def test_a_fault_costs_time_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: tuple[Any, str]
) -> None:
    monkeypatch.setattr(measurements, "LATE", 60.0)
    expected, _ = trained()
    called = []

    def broken(*given: Any) -> None:
        called.append(1)
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(*where, broken)
    found, _ = trained()
    assert called
    assert list(map(told, found.history)) == list(map(told, expected.history))
    assert caplog.text.count("one by one: ZeroDivisionError") == 1


class Twice(Loss):
    """Of ours, with what a block would pass by."""

    def __init__(self) -> None:
        super().__init__(verbose=True)
        self.kept: list[int] = []

    @property
    def name(self) -> str:
        return "Twice"

    def measure_together(self, block: Block) -> Series:
        raise AssertionError("a subclass may have changed anything")

    def keep(self, global_step: int, value: Any) -> None:
        self.kept.append(global_step)
        super().keep(global_step, value)


def test_a_subclass_is_asked_step_by_step(comparison: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    twice = Twice()
    pit, _ = trained(quantities=[twice, Loss(verbose=True), "NormTest"])
    assert comparison.together["Twice"] > 0
    assert comparison.singly["Twice"] == STEPS
    assert twice.kept == list(range(STEPS))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"[Step {step}] {name}" for step in range(STEPS) for name in ("Twice", "Loss")
    ]
    assert all(row["Twice"] == row["Loss"] for row in pit.get_output().values())


def test_blocks_have_a_limit(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = []
    init = Block.__init__

    def noted(it: Block, steps: Sequence[Any]) -> None:
        init(it, steps)
        largest.append(len(steps) * steps[0].numbers.size)

    monkeypatch.setattr(Block, "__init__", noted)
    monkeypatch.setattr(measurements, "ROOM", 5000)
    trained()
    assert comparison.together["steps"] > STEPS / 2
    assert 2500 < max(largest) <= 5000


def test_a_step_under_way_is_left_for_the_next_block() -> None:
    """Else one step of each block would be measured in two halves."""
    halves = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurements, "LATE", 60.0)
        do = Measurements._do
        patch.setattr(Measurements, "_do", lambda self, entry: (halves.append(entry.end is None), do(self, entry))[1])
        trained(taped=native.problem() is None)
    assert sum(halves) <= measurements.SAMPLED + 1
