"""``Watch``: what the loop triggers, and what the user asks of a watched run."""

import atexit
import logging
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet, ref

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cockpit.core.errors import CockpitError
from cockpit.core.guard import entry
from cockpit.core.history import History
from cockpit.core.recorded import Recorded
from cockpit.core.schedule import Schedule
from cockpit.core.source import Source
from cockpit.engine.autograd import eager, tap
from cockpit.engine.needs import double_backward
from cockpit.engine.step.settings import Settings
from cockpit.quantities import Loss
from cockpit.store import StoredRun
from cockpit.tracking.checks import disabled, whole
from cockpit.tracking.explain import explain
from cockpit.tracking.hooks import Hook
from cockpit.tracking.recording import Recording
from cockpit.tracking.roster import Roster, inside, may_nest, nested
from cockpit.tracking.ticks import Ticks
from cockpit.tracking.tracker import Tracker

if TYPE_CHECKING:
    from cockpit.plots.notebook import Display

log = logging.getLogger("cockpit")

_open: WeakSet["Watch"] = WeakSet()  # with a run on disk


class Watch:
    """A watched training run, ``pit`` in the examples; :func:`watch` returns it."""

    def __init__(
        self,
        model: nn.Module,
        optimizers: list[Optimizer],
        loss_fn: Any,
        quantities: list[Any],
        schedule: Schedule,
        settings: Settings,
        step: int,
    ) -> None:
        self._process = os.getpid()
        self.name = type(model).__name__  #: name of the run
        self.step = step  #: number of the current step
        self._first = step
        self._model, self._optimizers, self._loss_fn = model, optimizers, loss_fn
        self._recording: Recording | None = None
        self._display: Display | None = None
        self._stepped: set[int] = set()
        self._hooks: list[Any] = []
        self._armed = ExitStack()
        self._armed_for: tuple[bool, bool] | None = None  # what the hooks are for; None: there are none
        self._alone = len(optimizers) == 1
        self._closed = disabled()
        measured = [] if self._closed else quantities
        roster = Roster(model, optimizers)
        settings.compiled = -1 if eager.is_compiled(model) else settings.compiled
        self._tracker = Tracker(roster.trainable, measured, schedule, settings, roster.learning_rates)
        self._pace, self._ticks = self._tracker.pace, Ticks(roster.trainable, settings.scale, Loss.__name__)
        if any(type(quantity) is Loss and not quantity.scheduled for quantity in measured):
            self._tracker.ticks = self._ticks
            tap.observe(self._ticks)
        families = [[optimizer, *inside(optimizer)] for optimizer in optimizers]
        self._places = {id(one): place for place, family in enumerate(families) for one in family}
        self._nests = any(map(may_nest, families))
        self._steppers = [one for family in families for one in family]
        if not self._closed:
            for one in self._steppers:
                if not self._alone:  # which of them steps first says where a step begins
                    self._hooks.append(one.register_step_pre_hook(self._before_update))
                self._hooks.append(one.register_step_post_hook(self._after_update))
            try:
                self._open(self._tracker.begin(step))
            except BaseException:
                self.close()
                raise

    # ---- for the user

    def loss(self, individual_losses: Tensor) -> Tensor:
        """Take one loss per sample (``reduction="none"``), return their mean; call ``backward`` on it."""
        if not isinstance(individual_losses, Tensor) or individual_losses.dim() == 0:
            shape = getattr(individual_losses, "shape", None)
            raise CockpitError(
                f"pit.loss got {'a scalar' if shape is not None else repr(individual_losses)}; "
                'give individual losses, one per sample: compute the loss with reduction="none"'
            )
        mean = individual_losses.mean()
        self._given(individual_losses, mean)
        return mean

    def log(self, /, step: int | None = None, **metrics: Any) -> None:
        """Record your metrics, as ``log(accuracy=0.9)``, at the last finished step or at ``step``."""
        if step is not None and not whole(step, 0):
            raise CockpitError(f"log(step={step!r}): give a step number, 0 or more and below 2^63")
        self._tracker.log(max(self.step - 1, self._first) if step is None else step, metrics)
        if self._closed and self._recording is not None:
            log.warning(
                "log(%s): the run is closed, so this is kept in memory only; call log before close", ", ".join(metrics)
            )

    def get_output(self) -> dict[int, dict[str, Any]]:
        """Return ``{step: {quantity: value}}``; an undefined value is None, and ``history`` says why."""
        return self._tracker.history.output()

    @property
    def history(self) -> History:
        """All records, with reasons for undefined values and details such as standard errors."""
        return self._tracker.history

    def show(self) -> None:
        """Show the deck: in a notebook it follows the training, in a terminal it is printed once."""
        from cockpit.plots import notebook  # drawing is loaded where something is drawn
        from cockpit.plots.plotter import CockpitPlotter

        if not notebook.inside():
            CockpitPlotter().plot(self)
        elif self._closed:
            notebook.put(self._repr_html_())
        else:
            self._stop_showing()
            self._display = notebook.Display(self._reader())

    def _reader(self) -> Callable[[], Source]:
        """Return what the display reads: the run on disk, the cheapest for this process, else the run in memory."""
        if self.folder is None:
            return self.source
        run = StoredRun(self.folder)

        def current() -> Source:
            run.refresh()
            return run

        return current

    def _stop_showing(self) -> None:
        if self._display is not None:
            self._display.close()
            self._display = None

    def _repr_html_(self) -> str:
        from cockpit.plots.notebook import html

        return html(self.source())

    def explain(self) -> str:
        """Return, as text, what is covered, what is not and why, and what tracking costs."""
        return explain(self._tracker, self._model)

    @property
    def folder(self) -> Path | None:
        """Folder of the run; None: in memory only."""
        return None if self._recording is None else self._recording.folder

    def record(self, folder: Path, metadata: dict[str, Any], resume: bool = True) -> None:
        """Write the run to a folder from now on, with this metadata; ``resume``: a run in the folder goes on."""
        self._recording = Recording(folder, metadata, self._tracker, self._first, resume)
        watched = ref(self)
        self._recording.attend(lambda: None if (found := watched()) is None else found.step)
        _open.add(self)

    def source(self) -> Recorded:
        """Return what was recorded so far as series, for panels and plots."""
        self._tracker.settle()
        return Recorded([*self._tracker.journal, *self._ticks.records()], self.name, reached=self.step)

    def close(self) -> None:
        """Stop watching, remove all hooks and finish the run; a second call does nothing."""
        self._end(None)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not sys.is_finalizing():
            self._end(None, closed=False)

    def _end(self, error: BaseException | None, closed: bool = True) -> None:
        if self._closed or self._process != os.getpid():  # a forked child has no part in the run
            return
        self._closed = True
        for work in (self._disarm, self._unhook, self._tracker.settle, self._drop_unfinished, self._tracker.close):
            self._carefully(work)  # a script goes on after its training, and saves what it trained
        if self._recording is not None:
            self._carefully(partial(self._recording.reached, self.step))  # also past the last tracked step
            self._carefully(partial(self._recording.close, error, closed))
        self._carefully(self._stop_showing)

    @entry
    def _carefully(self, work: Callable[[], None]) -> None:
        work()

    def _unhook(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        tap.leave(self._ticks)

    def _drop_unfinished(self) -> None:
        if self.step > self._first:
            self._tracker.journal.discard(self.step)  # begun, but the optimizer never took it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"at step {self.step}"
        tracked = len(self.history.steps())
        return f"<cockpit.watch of {type(self._model).__name__}, {state}, {tracked} step{'s' * (tracked != 1)} tracked>"

    # ---- what the loop triggers

    def fault(self, error: Exception) -> None:
        """Give the current step up after an error in Cockpit's code, and record why."""
        self._tracker.fault(error)

    @entry
    def _begin_step(self) -> None:
        self._open(bool(self._tracker.open(self.step)))

    def _open(self, tracked: bool) -> None:
        """Hooks are in place only for a step that is tracked, and stay from one such step to the next."""
        if not tracked:
            self._disarm()
            return
        recorder = self._tracker.recorder
        settings, twice = self._tracker.settings, recorder is not None and double_backward(recorder.needs)
        fused = twice or settings.compiled != eager.compilations()
        roomy = not fused or all(map(settings.allowance.roomy, islice(self._model.parameters(), 1)))
        settings.stays_compiled = eager.kept_compiled(self._model, settings.compiled, roomy)
        if self._armed_for != (wanted := (twice and roomy, not settings.stays_compiled)):
            self._arm(*wanted)

    def _arm(self, twice: bool, eagerly: bool) -> None:
        """``twice``: the network is differentiated twice; ``eagerly``: compiled code runs as it is written."""
        self._disarm()
        self._armed_for = twice, eagerly
        for module, called in ((self._model, self._model_called), (self._loss_fn, self._loss_called)):
            if isinstance(module, nn.Module) and not isinstance(module, torch.jit.ScriptModule):  # those take no hooks
                handle = module.register_forward_hook(Hook(called), with_kwargs=True)
                self._armed.callback(handle.remove)
        tap.listen(self._tracker)
        self._armed.callback(tap.leave, self._tracker)
        if self._alone:
            for one in self._steppers:
                self._armed.callback(one.register_step_pre_hook(self._before_update).remove)
        if eagerly:
            eager.hold()  # for the whole step: a compiled wrapper runs before any hook of the model
            self._armed.callback(eager.release)
        scripted = isinstance(self._model, torch.jit.ScriptModule)
        switches = eager.differentiable_twice(self._model) if twice and not scripted else []
        if switches:  # only while the model computes: the user's own settings hold everywhere else
            entered = ExitStack()
            self._armed.callback(entered.close)
            plainly = Hook(lambda *_: self._compute_plainly(entered, switches))
            self._armed.callback(self._model.register_forward_pre_hook(plainly, prepend=True).remove)
            leave = Hook(lambda *_: entered.close())
            self._armed.callback(self._model.register_forward_hook(leave, always_call=True).remove)

    @entry
    def _compute_plainly(self, entered: ExitStack, switches: list[Callable[[], Any]]) -> None:
        for switch in switches:
            entered.enter_context(switch())

    def _disarm(self) -> None:
        self._armed.close()
        self._armed_for = None

    @entry
    def _model_called(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if not torch.is_grad_enabled():  # an evaluation, which may last
            self._tracker.pause()
        elif self._tracker.recorder is not None:
            self._tracker.recorder.saw_model(args, kwargs, output)

    @entry
    def _given(self, individual_losses: Tensor, mean: Tensor) -> None:
        if self._tracker.recorder is not None:
            self._tracker.recorder.given(individual_losses, mean)

    @entry
    def _loss_called(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if self._tracker.recorder is not None and torch.is_grad_enabled():
            self._tracker.recorder.saw_loss(module, (*args, *kwargs.values()), output)

    @entry
    def _before_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._nests and nested(self._places):
            return
        if self._places[id(optimizer)] in self._stepped:  # it steps again before the others: the step before is over
            self._finish_step()
        if not self._stepped:
            self._tracker.before_update(any(entry is not None for entry in (*args[1:], *kwargs.values())))

    @entry
    def _after_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._nests and nested(self._places):
            return
        pace = self._pace
        if pace.resting > 0 and self._alone:
            self._ticks.finish(self.step)
            pace.resting -= 1
            pace.rested += 1
            self.step += 1
            return
        self._stepped.add(self._places[id(optimizer)])
        if len(self._stepped) == len(self._optimizers):
            self._finish_step()
        else:
            self._ticks.updated = True
            if self._tracker.recorder is not None:
                self._tracker.recorder.in_update, self._tracker.recorder.updated = False, True

    def _finish_step(self) -> None:
        self._stepped.clear()
        tracked = self._tracker.recorder is not None
        self._tracker.after_update()
        self._ticks.finish(self.step)
        self.step += 1
        self._tell(tracked)
        self._begin_step()

    @entry
    def _tell(self, tracked: bool) -> None:
        if self._recording is not None:
            self._recording.reached(self.step)
            if tracked:
                self._recording.book()


eager.uncompiled(Watch._after_update)  # and with it all that is an entry


@atexit.register
def _at_exit() -> None:
    """What was tracked is written, however the script ends."""
    for pit in list(_open):
        pit._end(None, closed=False)
