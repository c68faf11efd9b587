"""Decides what is due at a step, measures it when the moment comes, and keeps the records."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import Undefined, why
from cockpit.core.history import History
from cockpit.core.record import Record
from cockpit.core.schedule import Budget, Schedule
from cockpit.engine.needs import LINE, UPDATE, Need
from cockpit.engine.observation import Line, LineEnd, Observation
from cockpit.engine.recorder import Recorder
from cockpit.engine.settings import Settings
from cockpit.journal import Journal
from cockpit.quantities import QUANTITIES
from cockpit.quantities._base import Measured, Moment, Quantity, SingleStepQuantity, total

log = logging.getLogger("cockpit")


@dataclass
class Departure:
    """The start of a step that is judged at its end."""

    step: int
    quantities: list[Quantity]
    direction: dict[str, Tensor] = field(default_factory=dict)
    length: float = 0.0
    end: LineEnd | str = "the optimizer took no step"


@dataclass
class Coverage:
    """What the last tracked steps showed, for ``explain``."""

    uncovered: dict[str, str] = field(default_factory=dict)
    share: float = 1.0  # of all parameter elements that have individual gradients
    flaw: str | None = None  # why the last step had no individual gradients at all
    coupled: bool = False
    regularised: bool = False
    accumulation: int = 1
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Tracker:
    """The same machinery behind ``watch`` and the paper's ``Cockpit``."""

    def __init__(
        self,
        parameters: Callable[[], dict[str, nn.Parameter]],
        quantities: list[Quantity],
        schedule: Schedule,
        settings: Settings,
        learning_rates: Callable[[], list[tuple[float, list[str]]]],
        defer: bool = False,
    ) -> None:
        self.quantities, self.schedule, self.settings = quantities, schedule, settings
        self.journal, self.coverage = Journal(), Coverage()
        self.recorder: Recorder | None = None
        self._parameters, self._learning_rates, self._defer = parameters, learning_rates, defer
        self._begin = time.perf_counter()
        #: parameters at the start of the run, for the quantities that ask
        self.start = {name: p.detach().clone() for name, p in parameters().items()} if self._keeps_start() else {}
        self._due: list[Quantity] = []
        self._departure: Departure | None = None
        self._before: dict[str, Tensor] = {}
        self._observation: Observation | None = None
        self._measured = 0  # backward passes that the last measurement had seen

    @property
    def history(self) -> History:
        """What was measured and logged."""
        return self.journal.history

    def _keeps_start(self) -> bool:
        return any(quantity.name == "Distance" or "start" in quantity.needs for quantity in self.quantities)

    # ---- a step

    def open(self, step: int) -> bool:
        """Begin a step; True if anything is measured in it."""
        by_default = None
        self._due = []
        for quantity in self.quantities:
            if quantity.scheduled:
                due = quantity.should_compute(step)
            else:
                by_default = bool(self.schedule(step)) if by_default is None else by_default
                due = by_default
            if due:
                self._due.append(quantity)
        ending = self._departure is not None and self._departure.step == step - 1
        if not ending:
            self._departure = None
        self.recorder, self._observation, self._measured = None, None, 0
        if not self._due and not ending:
            return False
        needs = self.needs()
        if ending and self._departure is not None:
            needs = needs.union(*(quantity.needs for quantity in self._departure.quantities))
        parameters = self._parameters()
        self.recorder = Recorder(step, parameters, needs, self.settings)
        self.recorder.retain = not self._defer and any(quantity.create_graph(step) for quantity in self._due)
        self._remember_start(parameters)
        return True

    def _remember_start(self, parameters: Mapping[str, Tensor]) -> None:
        if self.start:
            for name, parameter in parameters.items():
                if name not in self.start:  # unfrozen since: it has not moved yet
                    self.start[name] = parameter.detach().clone()

    def needs(self) -> frozenset[Need]:
        """Everything that the due quantities ask for."""
        return frozenset[Need]().union(*(quantity.needs for quantity in self._due))

    # ---- a backward pass (see ``engine.tap``)

    def before(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> None:
        """A backward pass is about to run."""
        recorder = self.recorder
        if recorder is None:
            return
        if not recorder.microbatches:
            recorder.parameters = self._parameters()  # a parameter may have been frozen or unfrozen since
            self._remember_start(recorder.parameters)
        recorder.before(roots, seeds)

    def attach(self) -> bool:
        """Place hooks on its graph."""
        return self.recorder is not None and self.recorder.attach()

    def detach(self) -> None:
        """Remove them."""
        if self.recorder is not None:
            self.recorder.detach()

    def after(self) -> None:
        """Its gradients are complete."""
        recorder = self.recorder
        if recorder is None or not recorder.after() or self._defer:
            return
        if len(recorder.microbatches) >= self.coverage.accumulation:
            self.measure()
        else:  # more backward passes are expected; the user may clip before the last one of an epoch
            recorder.gradient = {name: grad.clone() for name, grad in recorder.gradient.items()}

    def measure(self) -> None:
        """Measure what the gradients show."""
        recorder = self.recorder
        if recorder is None:
            return
        begin = time.perf_counter()
        with torch.no_grad(), torch.autocast(_device(recorder.parameters), enabled=False):
            step = self._observe(recorder)
            step.tracking = recorder.seconds
            self._arrive(step, recorder.needs)
            for quantity in self._due:
                if quantity.moment is Moment.BACKWARD:
                    self._record(quantity, step, step.step)
            if self._departure is not None and self._departure.step == step.step - 1:
                for quantity in self._departure.quantities:
                    self._record(quantity, step, self._departure.step)
            self._note(step)
        self._measured = len(recorder.microbatches)
        recorder.seconds += time.perf_counter() - begin

    def _observe(self, recorder: Recorder) -> Observation:
        self._observation = Observation(
            step=recorder.step,
            parameters={name: p.detach() for name, p in recorder.parameters.items()},
            gradient=recorder.gradient,
            microbatches=recorder.microbatches,
            loss_scale=recorder.loss_scale,
            learning_rates=self._learning_rates(),
            start=self.start,
            elapsed=time.perf_counter() - self._begin,
            flaw=recorder.flaw,
            root=recorder.root,
            leaves=list(recorder.parameters.values()),
            half=recorder.half,
        )
        return self._observation

    def _arrive(self, step: Observation, needs: frozenset[Need]) -> None:
        """Compute the statistics; close the line of the step before."""
        departure = self._departure
        arriving = departure is not None and departure.step == step.step - 1 and not isinstance(departure.end, str)
        line = departure.direction if arriving and departure is not None else None
        begin = time.perf_counter()
        try:
            step.prepare(needs, line)
        except Exception as error:
            step.flaw = step.flaw or why(error)
        self._book("individual gradients", time.perf_counter() - begin)
        if departure is None:
            return
        if isinstance(departure.end, str):
            step.line = departure.end
            return
        try:
            here = step.end(departure.length, total(step.dots("line")))
            step.line = _line(departure, here)
        except Undefined as reason:
            step.line = str(reason)

    def before_update(self) -> None:
        """The optimizer is about to step."""
        recorder = self.recorder
        if recorder is None:
            return
        begin = time.perf_counter()
        if recorder.microbatches:
            if self._measured != len(recorder.microbatches):
                self.measure()
            self.coverage.accumulation = len(recorder.microbatches)
        if UPDATE in recorder.needs and not self._before:
            self._before = {name: p.detach().clone() for name, p in recorder.parameters.items()}
        recorder.in_update = True
        recorder.seconds += time.perf_counter() - begin

    def after_update(self) -> None:
        """The optimizer has stepped."""
        recorder, departure, self._departure = self.recorder, self._departure, None
        if recorder is None:
            return
        begin = time.perf_counter()
        if recorder.microbatches and self._measured != len(recorder.microbatches):
            self.measure()  # a closure: the backward passes ran inside the step
        elif departure is not None and not recorder.microbatches:
            self._never_arrived(departure, recorder.flaw or "no backward pass was seen in the step after")
        step = self._observation or self._observe(recorder)
        with torch.no_grad(), torch.autocast(_device(recorder.parameters), enabled=False):
            if self._before:
                now = recorder.parameters
                moved = {name: before for name, before in self._before.items() if name in now}
                step.update = {name: now[name].detach() - before for name, before in moved.items()}
            for quantity in self._due:
                if quantity.moment is Moment.UPDATE:
                    self._record(quantity, step, step.step)
                elif not recorder.microbatches and quantity.moment is Moment.BACKWARD:
                    reason = recorder.flaw or "no backward pass was seen in this step"
                    self.journal.keep(Record(step.step, quantity.name, quantity.kind, None, reason))
            self._depart(step)
        recorder.seconds += time.perf_counter() - begin
        if isinstance(self.schedule, Budget):
            self.schedule.spend(recorder.seconds)
        self._book("tracked steps", recorder.seconds)
        if recorder.curvature_seconds:
            self._book("curvature", recorder.curvature_seconds)
        if self._due:
            self._circumstances(step, recorder.seconds)
        self.journal.hand_over()
        self._before, self._observation, self.recorder = {}, None, None

    def _depart(self, step: Observation) -> None:
        """Remember where this step began, for what is judged at its end."""
        leaving = [quantity for quantity in self._due if quantity.moment is Moment.NEXT]
        if not leaving:
            return
        departure = self._departure = Departure(step.step, leaving)
        if step.update is None or not any(LINE in quantity.needs for quantity in leaving):
            return
        length = float(torch.stack([v.double().square().sum() for v in step.update.values()]).sum().sqrt())
        if length == 0 or not isfinite(length):
            departure.end = "the step has length zero" if length == 0 else "the step is not finite"
            return
        try:
            departure.end = step.end(length, step.project(step.update))
            departure.direction, departure.length = step.update, length
        except Exception as error:
            departure.end = why(error)

    def abandon(self) -> None:
        """Forget the current step: the loop was left."""
        self.recorder, self._observation, self._before = None, None, {}

    def close(self) -> None:
        """End the run: what waited for a further step stays undefined."""
        if self._departure is not None:
            self._never_arrived(self._departure, "no further step was taken")
            self._departure = None
        self.journal.hand_over()
        self.abandon()

    # ---- records

    def _never_arrived(self, departure: Departure, reason: str) -> None:
        """What waited for the step after stays undefined."""
        for quantity in departure.quantities:
            self.journal.keep(Record(departure.step, quantity.name, quantity.kind, None, reason))

    def _record(self, quantity: Quantity, step: Observation, under: int) -> None:
        begin = time.perf_counter()
        try:
            measured = _measure(quantity, step)
        except Exception as error:  # undefined, or a fault of ours: never one of the user's loop
            record = Record(under, quantity.name, quantity.kind, None, why(error))
        else:
            record = _as_record(quantity, under, measured)
        self._book(quantity.name, time.perf_counter() - begin)
        self.journal.keep(record)
        quantity.keep(under, record.value)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Keep the user's own numbers beside the measured ones."""
        self.journal.log(step, metrics, QUANTITIES)

    def _circumstances(self, step: Observation, seconds: float) -> None:
        """Record what a reader needs to judge the values of a step."""
        for group, (rate, _) in enumerate(step.learning_rates):
            self.journal.note(step.step, f"learning_rate[{group}]" if group else "learning_rate", rate)
        if step.microbatches:
            self.journal.note(step.step, "batch_size", step.batch_size)
        self.journal.note(step.step, "tracking_seconds", seconds)

    def _note(self, step: Observation) -> None:
        coverage, missing = self.coverage, step.uncovered
        for name in missing.keys() - coverage.uncovered.keys():
            log.warning("%s is left out of individual gradients: %s", name, missing[name])
        coverage.uncovered, coverage.flaw = dict(missing), step.flaw
        everything = sum(p.numel() for p in step.parameters.values())
        left_out = sum(p.numel() for name, p in step.parameters.items() if name in missing)
        coverage.share = 1 - left_out / max(1, everything)
        coverage.coupled |= any(micro.coupled for micro in step.microbatches)
        if step.regularised and not coverage.regularised:
            log.warning(
                "the gradient has a part that no sample contributed (a regularisation term in the loss?): "
                "individual gradients leave it out, GradNorm and Loss have it"
            )
        coverage.regularised |= step.regularised

    def _book(self, name: str, seconds: float) -> None:
        self.coverage.seconds[name] = self.coverage.seconds.get(name, 0.0) + seconds
        self.coverage.counts[name] = self.coverage.counts.get(name, 0) + 1


def _measure(quantity: Quantity, step: Observation) -> Any:
    """By ``measure``, or by ``_compute`` where a subclass in the paper's way overrides it."""
    if isinstance(quantity, SingleStepQuantity) and quantity._compute is not None:
        with torch.enable_grad():
            return SingleStepQuantity.measure(quantity, step)
    return quantity.measure(step)


def _as_record(quantity: Quantity, step: int, measured: Any) -> Record:
    if not isinstance(measured, Measured):
        measured = Measured(measured)
    value = measured.value
    if quantity.name != "Loss":
        if isinstance(value, float) and not isfinite(value):
            return Record(step, quantity.name, quantity.kind, None, "not finite", measured.details)
        if isinstance(value, dict):
            wrong = [name for name, entry in value.items() if isinstance(entry, float) and not isfinite(entry)]
            if wrong:
                names = ", ".join(wrong[:5]) + (" ..." if len(wrong) > 5 else "")
                return Record(step, quantity.name, quantity.kind, value, f"not finite: {names}", measured.details)
    return Record(step, quantity.name, quantity.kind, value, None, measured.details)


def _line(start: Departure, end: LineEnd) -> Line:
    assert isinstance(start.end, LineEnd)
    first = start.end
    return Line(
        start.step,
        start.length,
        (first.loss, end.loss),
        (first.slope, end.slope),
        (first.loss_variance, end.loss_variance),
        (first.slope_variance, end.slope_variance),
    )


def _device(parameters: Mapping[str, Tensor]) -> str:
    return next(iter(parameters.values())).device.type if parameters else "cpu"


def learning_rates(optimizers: Sequence[Any], names: Mapping[int, str]) -> list[tuple[float, list[str]]]:
    """Learning rate of each parameter group and the names of its parameters; ``names`` by the parameter's id."""
    return [
        (float(group["lr"]), [names[id(p)] for p in group["params"] if id(p) in names])
        for optimizer in optimizers
        for group in optimizer.param_groups
        if "lr" in group
    ]
