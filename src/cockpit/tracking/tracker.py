"""Decides what is due at a step, measures it when the moment comes, and keeps the records."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import why
from cockpit.core.guard import Faults, entry
from cockpit.core.history import History
from cockpit.core.journal import Journal
from cockpit.core.record import Record
from cockpit.core.schedule import Schedule
from cockpit.core.turn import Turn
from cockpit.engine.autograd.eager import full_precision
from cockpit.engine.autograd.thread import LoopThread
from cockpit.engine.needs import UPDATE, Need
from cockpit.engine.step.motion import Motion
from cockpit.engine.step.observation import Observation
from cockpit.engine.step.prepared import NOTHING_SEEN
from cockpit.engine.step.recorder import Recorder
from cockpit.engine.step.settings import Settings
from cockpit.quantities import QUANTITIES
from cockpit.quantities._base import Quantity
from cockpit.tracking.agenda import Agenda
from cockpit.tracking.coverage import UNSTEPPED, Coverage
from cockpit.tracking.departure import Departure
from cockpit.tracking.measurements import Measurements
from cockpit.tracking.pace import Pace
from cockpit.tracking.ticks import Ticks

log = logging.getLogger("cockpit")

STRAYS = 8  # backward passes in one step, each of which begins anew


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
        self.ticks: Ticks | None = None  #: the loss of every step
        self._parameters, self._learning_rates, self._defer = parameters, learning_rates, defer
        self._begin = time.perf_counter()
        kept = any(quantity.name == "Distance" or "start" in quantity.needs for quantity in quantities)
        self.start = self._copies(parameters()) if kept else {}  #: parameters when the run began
        first = next(iter(parameters().values()), None)
        self.pace = Pace(schedule, None if first is None else first.device)
        self._due: list[Quantity] = []
        self._agenda = Agenda()
        self._agendas: dict[Any, Agenda] = {}
        self._departure: Departure | None = None
        self._motion = Motion()
        self._measurements = Measurements(self.journal, self.coverage.book)
        self._observation: Observation | None = None
        self._measured = 0  # backward passes that the last measurement had seen
        self._thread, self._faults, self._turn = LoopThread(), Faults(log), Turn()

    @property
    def history(self) -> History:
        """What was measured and logged, up to now."""
        self.settle()
        return self.journal.history

    def meanwhile(self) -> bool:
        """In another thread, while the loop does something else: measure what is over; True to be asked again soon."""
        self._pass_on()
        if not self._measurements.pending:
            return False
        with self._turn.spare() as free, torch.no_grad():
            return self._measurements.meanwhile() if free else True

    def _pass_on(self) -> None:
        records = self.ticks.take() if self.ticks is not None else None
        if records and self.journal.sink is not None:
            self.journal.sink.append(records)

    def pause(self) -> bool:
        """No tracked step follows soon: measure what is there, else it would wait for one; False if more will come."""
        with self._turn:
            return self._measurements.settle()

    def settle(self) -> None:
        """Wait for the device and measure everything that waits for it."""
        if self.ticks is not None:
            self.ticks.settle()
        try:
            with self._turn:
                self._measurements.settle(wait=True)
        except Exception as error:  # the device is lost: what was recorded before must still be written
            log.warning("%s steps could not be measured: %s", self._measurements.give_up(), why(error))

    def _copies(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of parameters, in the host's memory where the device has little."""
        if not self._on_host(parameters, 2):  # the direction of a step has to fit as well
            self.settings.allowance.standing += sum(p.nbytes for p in parameters.values())
            return {name: p.detach().clone() for name, p in parameters.items()}
        host = {name: torch.empty_like(p.detach(), device="cpu", pin_memory=True) for name, p in parameters.items()}
        return {name: copy.copy_(parameters[name].detach()) for name, copy in host.items()}

    def _on_host(self, parameters: Mapping[str, Tensor], copies: int = 1) -> bool:
        """Whether copies of the parameters are to lie in the host's memory."""
        size = sum(p.nbytes for p in parameters.values())
        return bool(parameters) and self.settings.allowance.on_host(copies * size, next(iter(parameters.values())))

    # ---- a step

    @entry
    def open(self, step: int) -> bool:
        """Begin a step; True if anything is measured in it."""
        with self._turn:
            return self.begin(step)

    def begin(self, step: int) -> bool:
        """The same before the loop runs: a schedule that fails at its first step is shown to who gave it."""
        self._thread.begin_step()
        self._due = self.pace.due(step, self.quantities)
        ending = self._departure is not None and self._departure.step == step - 1
        if ending:
            self.pace.resting = 0
        else:
            self._departure = None
        self.recorder, self._observation, self._measured = None, None, 0
        if not self._due and not ending:
            if not self.pause():  # something is on its way from the device: look again at the next step
                self.pace.resting = 0
            return False
        agenda = self._agenda = self._plan(self._departure.quantities if self._departure is not None else ())
        parameters = self._parameters()
        recorder = self.recorder = Recorder(step, parameters, agenda.needs, self.settings)
        if agenda.grasping and not self._defer:
            recorder.retain = any(quantity.create_graph(step) for quantity in agenda.grasping)
        if ending and self._departure is not None:
            recorder.line = self._departure.direction
        self._remember_start(parameters)
        return True

    def _plan(self, arriving: Sequence[Quantity]) -> Agenda:
        """What the quantities of a step need; remembered, because it is the same at most steps."""
        key = tuple(map(id, self._due)), tuple(map(id, arriving))
        known = self._agendas.get(key)
        if known is None:
            known = Agenda.of(self._due, arriving)
            if known.constant:
                self._agendas[key] = known
        return known

    def _remember_start(self, parameters: Mapping[str, Tensor]) -> None:
        if self.start and not self.start.keys() >= parameters.keys():
            for name, parameter in parameters.items():
                if name not in self.start:  # unfrozen since: it has not moved yet
                    self.start[name] = parameter.detach().clone()

    # ---- a backward pass (see ``engine.tap``)

    @entry
    def concerns(self, roots: tuple[Tensor, ...]) -> bool:
        """Whether a backward pass may be one of ours: in another thread than the loop's, its graph tells."""
        return self.recorder is not None and self._thread.owns(roots, self.recorder.parameters)

    @entry
    def before(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> None:
        """A backward pass is about to run."""
        recorder = self.recorder
        if recorder is None:
            return
        self._thread.begin_pass()
        if not recorder.passes:
            recorder.parameters = self._parameters()  # a parameter may have been frozen or unfrozen since
            self._remember_start(recorder.parameters)
        recorder.before(roots, seeds)
        if recorder.strays == STRAYS:
            self.coverage.say(UNSTEPPED)

    @entry
    def attach(self) -> bool:
        """Place hooks on its graph."""
        return self.recorder is not None and self.recorder.attach()

    @entry
    def alone(self) -> bool:
        """Whether autograd may run on this thread."""
        return self.recorder is not None and self.recorder.alone()

    @entry
    def detach(self) -> None:
        """Remove them."""
        self._thread.end_pass()
        if self.recorder is not None:
            self.recorder.detach()

    @entry
    def after(self) -> None:
        """Its gradients are complete."""
        recorder = self.recorder
        if recorder is None or not recorder.after() or self._defer:
            return
        if recorder.in_update or len(recorder.passes) >= self.coverage.accumulation:  # a closure: the update is next
            self._measure()
        else:  # more backward passes are expected; the user may clip before the last one of an epoch
            recorder.gradient = {name: grad.clone() for name, grad in recorder.gradient.items()}

    @entry
    def measure(self) -> None:
        """Measure what the gradients show."""
        self._measure()

    def _measure(self) -> None:
        recorder = self.recorder
        if recorder is None:
            return
        with self._turn, torch.no_grad(), full_precision(_device(recorder.parameters)):
            begin = time.perf_counter()
            step = self._observe(recorder)
            leaving = self._departure
            departure = leaving if leaving is not None and leaving.step == step.step - 1 else None
            self._prepare(step, recorder.needs, departure)
            step.tracking = recorder.seconds
            waiting = self._measurements.of(step)
            waiting.check, waiting.arriving = partial(self.coverage.note, step), departure
            self._measurements.measure(self._agenda.now, step, step.step)
            if departure is not None:
                self._measurements.measure(departure.quantities, step, departure.step)
            self._measurements.settle()
            self._measured = len(recorder.passes)
        recorder.seconds += time.perf_counter() - begin

    def _observe(self, recorder: Recorder) -> Observation:
        self._observation = Observation(
            step=recorder.step,
            parameters={name: p.detach() for name, p in recorder.parameters.items()},
            gradient=recorder.gradient,
            passes=recorder.passes,
            settings=self.settings,
            loss_scale=recorder.loss_scale,
            learning_rates=self._learning_rates(),
            start=self.start,
            elapsed=time.perf_counter() - self._begin,
            flaw=recorder.flaw,
            root=recorder.root,
            leaves=list(recorder.parameters.values()),
        )
        return self._observation

    def _prepare(self, step: Observation, needs: frozenset[Need], departure: Departure | None) -> None:
        """Compute the statistics."""
        begin = time.perf_counter()
        try:
            step.prepare(needs, departure.direction if departure is not None and departure.direction else None)
        except Exception as error:
            step.flaw = step.flaw or why(error)
        self.coverage.book("individual gradients", time.perf_counter() - begin)

    @entry
    def before_update(self, closure: bool = False) -> None:
        """The optimizer is about to step, and perhaps to call a closure with the backward passes in it."""
        recorder = self.recorder
        if recorder is None:
            return
        begin = time.perf_counter()
        if not recorder.passes and not closure:
            recorder.without_a_pass()
            self._measure()  # what needs none, before the parameters move
        if recorder.passes:
            if self._measured != len(recorder.passes):
                self._measure()
            self.coverage.accumulation = len(recorder.passes)
        if UPDATE in self._agenda.due and not self._motion.marked:
            self._motion.mark(recorder.parameters, self._on_host(recorder.parameters))
        recorder.in_update = True
        recorder.seconds += time.perf_counter() - begin

    @entry
    def after_update(self) -> None:
        """The optimizer has stepped."""
        recorder, departure = self.recorder, self._departure
        if recorder is not None:
            with self._turn:
                self._after_update(recorder, departure)
        else:
            self._departure = None

    def fault(self, error: Exception) -> None:
        """Give the step up, and say why; the training goes on."""
        step = "?" if self.recorder is None else self.recorder.step
        self.abandon()  # first: what failed may be memory
        self._faults.say(f"step {step}", error)

    def _after_update(self, recorder: Recorder, departure: Departure | None) -> None:
        begin = time.perf_counter()
        if recorder.passes and self._measured != len(recorder.passes):
            self._measure()  # a closure: the backward passes ran inside the step
        elif departure is not None and not recorder.passes:
            reason = (recorder.flaw or NOTHING_SEEN).replace("this step", "the step after")
            self._never(departure.step, departure.quantities, reason)
        self._departure = None
        step = self._observation or self._observe(recorder)
        with torch.no_grad(), full_precision(_device(recorder.parameters)):
            if self._motion.marked:
                self._move(step, recorder)
            self._measurements.measure(self._agenda.after, step, step.step)
            if not recorder.passes and recorder.flaw is None:  # nor in the closure
                self._never(step.step, self._agenda.now, NOTHING_SEEN)
            self._depart(step)
            step.numbers.send()
        seconds = recorder.seconds + time.perf_counter() - begin
        due = bool(self._due)
        self._measurements.of(step).end = lambda: self._end(step, seconds, due)
        step.release()
        if departure is not None:
            departure.direction = {}  # as large as the model, and the line has been looked along
        self._measurements.settle()
        recorder.seconds += time.perf_counter() - begin
        self.pace.spend(recorder.seconds)
        self.coverage.book("tracked steps", recorder.seconds)
        if recorder.curvature_seconds:
            self.coverage.book("curvature", recorder.curvature_seconds)
        self._observation, self.recorder = None, None

    def _end(self, step: Observation, seconds: float, due: bool) -> None:
        """Everything of this step is measured: add what a reader needs to judge it, and pass it on."""
        if due:
            rates = enumerate(step.learning_rates)
            noted = {f"learning_rate[{group}]" if group else "learning_rate": rate for group, (rate, _) in rates}
            if step.batch_size:
                noted["batch_size"] = step.batch_size
            noted["tracking_seconds"] = seconds
            self.journal.note(step.step, noted)
        self.journal.hand_over()

    def _move(self, step: Observation, recorder: Recorder) -> None:
        update = self._motion.take(recorder.parameters)
        try:
            step.moved(update, self._agenda.leaving)
        except Exception as error:
            step.flaw = step.flaw or why(error)

    def _depart(self, step: Observation) -> None:
        """Remember where this step began, for what is judged at its end."""
        if self._agenda.later:
            departure = self._departure = Departure(step.step, self._agenda.later)
            if step.update is not None and self._agenda.leaving:
                departure.direction = step.directions
                self._measurements.of(step).leaving = departure

    def abandon(self) -> None:
        """Forget the current step: the loop was left, or watching it failed."""
        if self.recorder is not None:
            self.recorder.detach()
        self._motion.forget()
        self.recorder, self._observation = None, None

    def close(self) -> None:
        """End the run: what waited for a further step stays undefined."""
        self.settle()
        self._pass_on()
        with self._turn:
            if self._departure is not None:
                self._never(self._departure.step, self._departure.quantities, "no further step was taken")
                self._departure = None
            self.journal.hand_over()
            self.abandon()

    # ---- records

    def _never(self, step: int, quantities: Sequence[Quantity], reason: str) -> None:
        """What could not be measured stays undefined."""
        for quantity in quantities:
            self.journal.keep(Record(step, quantity.name, quantity.kind, None, reason))

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Keep the user's own numbers beside the measured ones."""
        with self._turn:
            self.journal.log(step, metrics, QUANTITIES)


def _device(parameters: Mapping[str, Tensor]) -> str:
    return next(iter(parameters.values())).device.type if parameters else "cpu"
