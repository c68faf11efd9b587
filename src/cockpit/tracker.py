"""Decides what is due at a step, measures it when the moment comes, and keeps the records."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.agenda import Agenda
from cockpit.core.errors import why
from cockpit.core.guard import Faults, entry
from cockpit.core.history import History
from cockpit.core.record import Record
from cockpit.core.schedule import Schedule
from cockpit.core.turn import Turn
from cockpit.coverage import Coverage
from cockpit.departure import Departure
from cockpit.engine import kernels
from cockpit.engine.eager import full_precision
from cockpit.engine.motion import Motion
from cockpit.engine.needs import UPDATE, Need
from cockpit.engine.observation import NEW_REGULARISER, Observation
from cockpit.engine.occasion import Performance
from cockpit.engine.performance import performing
from cockpit.engine.recorder import Recorder
from cockpit.engine.reduction import CENTRE, SCATTER
from cockpit.engine.settings import Settings
from cockpit.engine.thread import LoopThread
from cockpit.journal import Journal
from cockpit.measurements import Measurements
from cockpit.pace import Pace
from cockpit.quantities import QUANTITIES
from cockpit.quantities._base import Quantity

log = logging.getLogger("cockpit")


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
        first = next(iter(parameters().values()), None)
        self.pace = Pace(schedule, None if first is None else first.device)
        self._due: list[Quantity] = []
        self._agenda = Agenda()
        self._agendas: dict[Any, Agenda] = {}
        self._departure: Departure | None = None
        self._follows = first is not None and first.device.type == "cpu"  # where updates along the gradient are told
        self._motion = Motion()
        self._measurements = Measurements(self.journal, self.coverage.book)
        self._observation: Observation | None = None
        self._program: Performance | None = None  # what the step under way was observed with
        self._measured = 0  # backward passes that the last measurement had seen
        self._thread, self._faults, self._turn = LoopThread(), Faults(log), Turn()

    @property
    def history(self) -> History:
        """What was measured and logged, up to now."""
        self.settle()
        return self.journal.history

    def meanwhile(self) -> bool:
        """In another thread, while the loop does something else: measure what is over; True to be asked again soon."""
        if not self._measurements.pending:
            return False
        with self._turn.spare() as free, torch.no_grad():
            return self._measurements.meanwhile() if free and self._measurements.late else True

    def pause(self) -> bool:
        """No tracked step follows soon: measure what is there, else it would wait for one; False if more will come."""
        with self._turn:
            return self._measurements.settle(pause=True)

    def settle(self) -> None:
        """Wait for the device and measure everything that waits for it."""
        try:
            with self._turn:
                self._measurements.settle(wait=True)
        except Exception as error:  # the device is lost: what was recorded before must still be written
            log.warning("%s steps could not be measured: %s", self._measurements.give_up(), why(error))

    def _keeps_start(self) -> bool:
        return any(quantity.name == "Distance" or "start" in quantity.needs for quantity in self.quantities)

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
        if not ending:
            self._departure = None
        self.recorder, self._observation, self._program, self._measured = None, None, None, 0
        if not self._due and not ending:
            if not self.pause():  # something is on its way from the device: look again at the next step
                self.pace.resting = 0
            return False
        agenda = self._agenda = self._plan(self._departure.quantities if self._departure is not None else ())
        parameters = self._parameters()
        recorder = self.recorder = Recorder(step, parameters, agenda.needs, self.settings)
        if agenda.grasping and not self._defer:
            recorder.retain = any(quantity.create_graph(step) for quantity in agenda.grasping)
        usual = self.settings.programs.wanted and not self._defer and self.coverage.accumulation == 1
        recorder.replayable = usual and agenda.constant and not recorder.retain
        self._remember_start(parameters)
        return True

    def _plan(self, arriving: Sequence[Quantity]) -> Agenda:
        """What the quantities of a step need; remembered, because it is the same at most steps."""
        key = tuple(map(id, self._due)), tuple(map(id, arriving)), self._follows
        known = self._agendas.get(key)
        if known is None:
            known = Agenda.of(self._due, arriving, self._follows)
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
        if not recorder.microbatches:
            recorder.parameters = self._parameters()  # a parameter may have been frozen or unfrozen since
            self._remember_start(recorder.parameters)
        recorder.before(roots, seeds)

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
        if len(recorder.microbatches) >= self.coverage.accumulation:
            self._measure()
        else:  # more backward passes are expected; the user may clip before the last one of an epoch
            recorder.gradient = {name: grad.clone() for name, grad in recorder.gradient.items()}

    @entry
    def measure(self) -> None:
        """Measure what the gradients show."""
        self._measure()

    def _measure(self) -> None:
        if self.recorder is not None:
            with self._turn:
                self._measure_in_turn(self.recorder)

    def _measure_in_turn(self, recorder: Recorder) -> None:
        begin = time.perf_counter()
        with torch.no_grad(), full_precision(_device(recorder.parameters)), self._held():
            step = self._replay(recorder)
            if step is None:
                step = self._observe(recorder)
                self._prepare(step, recorder.needs)
            step.tracking = recorder.seconds
            self._arrive(step)
            self._measurements.measure(self._agenda.now, step, step.step, self._agenda.constant)
            departure = self._arriving(step)
            if departure is not None:
                self._measurements.measure(departure.quantities, step, departure.step, self._agenda.constant)
            self.coverage.note(step)
            self._measurements.settle()
        self._measured = len(recorder.microbatches)
        recorder.seconds += time.perf_counter() - begin

    def _held(self) -> AbstractContextManager[Any]:
        """Kernels are not compiled where that cannot be afforded."""
        return kernels.held_back(True) if self.pace.frugal else nullcontext()

    def _replay(self, recorder: Recorder) -> Observation | None:
        """Observe by replaying a recorded step; None if there is no recording that fits."""
        departure, self._program = self._departure, None
        if recorder.in_update or len(recorder.microbatches) != 1 or recorder.microbatches[0].raw is None:
            return None
        begin = time.perf_counter()
        line = departure.direction if departure is not None and departure.step == recorder.step - 1 else {}
        found = performing(recorder, self.settings, self._agenda.due, self._agenda.leaving, self.start, line)
        if found is None:
            return None
        self._program, given = found
        step = self._observation = self._program.observe(given)
        step.step, step.flaw, step.learning_rates = recorder.step, recorder.flaw, self._learning_rates()
        step.elapsed = time.perf_counter() - self._begin
        self.coverage.book("individual gradients", time.perf_counter() - begin)
        return step

    def _observe(self, recorder: Recorder) -> Observation:
        for micro in recorder.microbatches:
            micro.thaw()
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
            prompt=recorder.prompt,
            regularised=set() if recorder.prompt else set(self.settings.regularised),
            ways=self.settings.ways,
        )
        return self._observation

    def _arriving(self, step: Observation) -> Departure | None:
        departure = self._departure
        return departure if departure is not None and departure.step == step.step - 1 else None

    def _prepare(self, step: Observation, needs: frozenset[Need]) -> None:
        """Compute the statistics."""
        departure = self._arriving(step)
        begin = time.perf_counter()
        try:
            step.prepare(needs, departure.direction if departure is not None and departure.direction else None)
        except Exception as error:
            step.flaw = step.flaw or why(error)
        self.coverage.book("individual gradients", time.perf_counter() - begin)

    def _arrive(self, step: Observation) -> None:
        """When the numbers are there, look at them, and close the line of the step before."""
        departure = self._arriving(step)
        if step.prompt:
            self.settings.regularised |= step.regularised
        elif step.reduction.of_mean:
            of_mean = step.reduction.of_mean
            self._measurements.of(step).check = lambda: self._check_regularised(step, of_mean)
        if departure is not None:
            self._measurements.of(step).arriving = departure

    def _check_regularised(self, step: Observation, of_mean: Mapping[str, bool]) -> None:
        """A term that no sample contributes was added to the loss: what was projected on the gradient is wrong."""
        found = step.unsettled()
        if found:
            self.settings.regularised |= found
            step.regularised |= found
            self.coverage.note_regularised(True)
            if not all(of_mean[name] for name in found):
                step.numbers.drop(CENTRE)
                step.numbers.drop(SCATTER)
                step.flaw = step.flaw or NEW_REGULARISER

    @entry
    def before_update(self) -> None:
        """The optimizer is about to step."""
        recorder = self.recorder
        if recorder is None:
            return
        begin = time.perf_counter()
        if recorder.microbatches:
            if self._measured != len(recorder.microbatches):
                self._measure()
            self.coverage.accumulation = len(recorder.microbatches)
        if self._program is not None:
            self._program.mark(recorder.parameters)
        elif UPDATE in self._agenda.due and not self._motion.marked:
            self._motion.mark(recorder.parameters)
        recorder.in_update = True
        recorder.seconds += time.perf_counter() - begin

    @entry
    def after_update(self) -> None:
        """The optimizer has stepped."""
        recorder, departure, self._departure = self.recorder, self._departure, None
        if recorder is not None:
            with self._turn:
                self._after_update(recorder, departure)

    def fault(self, error: Exception) -> None:
        """Give the step up, and say why; the training goes on."""
        step = "?" if self.recorder is None else self.recorder.step
        self.abandon()  # first: what failed may be memory
        self._faults.say(f"step {step}", error)

    def _after_update(self, recorder: Recorder, departure: Departure | None) -> None:
        begin = time.perf_counter()
        if recorder.microbatches and self._measured != len(recorder.microbatches):
            self._measure()  # a closure: the backward passes ran inside the step
        elif departure is not None and not recorder.microbatches:
            self._never_arrived(departure, recorder.flaw or "no backward pass was seen in the step after")
        step = self._observation or self._observe(recorder)
        with torch.no_grad(), full_precision(_device(recorder.parameters)), self._held():
            if self._program is not None:
                self._program.step(step, recorder.gradient_is_untouched())
            elif self._motion.marked:
                self._move(step, recorder)
            self._measurements.measure(self._agenda.after, step, step.step, self._agenda.constant)
            if not recorder.microbatches:
                reason = recorder.flaw or "no backward pass was seen in this step"
                for quantity in self._agenda.now:
                    self.journal.keep(Record(step.step, quantity.name, quantity.kind, None, reason))
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
        self._observation, self.recorder, self._program = None, None, None

    def _end(self, step: Observation, seconds: float, due: bool) -> None:
        """Everything of this step is measured: add the circumstances and pass it on."""
        if due:
            self._circumstances(step, seconds)
        self.journal.hand_over()

    def _move(self, step: Observation, recorder: Recorder) -> None:
        untouched = recorder.gradient_is_untouched()
        update = self._motion.take(recorder.parameters, recorder.gradient if untouched else None)
        try:
            step.moved(update, self._agenda.leaving, self._motion if untouched else None)
        except Exception as error:
            step.flaw = step.flaw or why(error)

    def _depart(self, step: Observation) -> None:
        """Remember where this step began, for what is judged at its end."""
        if not self._agenda.later:
            return
        departure = self._departure = Departure(step.step, self._agenda.later)
        if step.update is None or not self._agenda.leaving:
            return
        departure.direction = step.reduction.directions
        self._follows = any(direction.coefficient != 1 for direction in departure.direction.values())
        self._measurements.of(step).leaving = departure

    def abandon(self) -> None:
        """Forget the current step: the loop was left, or watching it failed."""
        if self.recorder is not None:
            self.recorder.detach()
        self._motion.forget()
        self.recorder, self._observation, self._program = None, None, None

    def close(self) -> None:
        """End the run: what waited for a further step stays undefined."""
        self.settle()
        with self._turn:
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

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Keep the user's own numbers beside the measured ones."""
        with self._turn:
            self.journal.log(step, metrics, QUANTITIES)

    def _circumstances(self, step: Observation, seconds: float) -> None:
        """Record what a reader needs to judge the values of a step."""
        rates = enumerate(step.learning_rates)
        noted = {f"learning_rate[{group}]" if group else "learning_rate": rate for group, (rate, _) in rates}
        if step.batch_size:
            noted["batch_size"] = step.batch_size
        noted["tracking_seconds"] = seconds
        self.journal.note(step.step, noted)


def _device(parameters: Mapping[str, Tensor]) -> str:
    return next(iter(parameters.values())).device.type if parameters else "cpu"
