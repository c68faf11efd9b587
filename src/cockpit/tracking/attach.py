"""``watch``: attach to a model, its optimizer and its loss; the training loop stays unchanged."""

import atexit
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, ref

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cockpit.core.budget import FIRST
from cockpit.core.errors import CockpitError
from cockpit.core.guard import entry
from cockpit.core.history import History
from cockpit.core.recorded import Recorded
from cockpit.core.schedule import Budget, Schedule, as_schedule
from cockpit.core.source import Source
from cockpit.engine.autograd import eager, tap
from cockpit.engine.autograd.allowance import Allowance
from cockpit.engine.autograd.scaler import LossScale
from cockpit.engine.needs import double_backward
from cockpit.engine.step.settings import Settings
from cockpit.quantities import resolve
from cockpit.store import StoredRun
from cockpit.tracking.checks import check_options, check_parts, check_torch, disabled, whole
from cockpit.tracking.config import hyperparameters
from cockpit.tracking.describe import describe
from cockpit.tracking.explain import explain
from cockpit.tracking.hooks import Hook
from cockpit.tracking.pace import tier_of
from cockpit.tracking.recording import Recording, announce, choose_folder
from cockpit.tracking.roster import Roster, inner_model, inner_optimizer
from cockpit.tracking.tracker import Tracker

if TYPE_CHECKING:
    from cockpit.plots.notebook import Display

log = logging.getLogger("cockpit")

FIRST_ON_GPU = 0.3  # seconds: what the device loads when it computes something for the first time
_open: WeakSet["Watch"] = WeakSet()  # with a run on disk
_watched: WeakKeyDictionary[nn.Module, "ReferenceType[Watch]"] = WeakKeyDictionary()


def watch(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    loss_fn: Any = None,
    *,
    quantities: Any = "economy",
    every: int | Schedule | None = None,
    budget: float = 0.05,
    grace: float = 10.0,
    run: str | Path | bool | None = None,
    name: str | None = None,
    config: Any = None,
    batch_axis: int = 0,
    batch_size: int | Callable[..., int] | None = None,
    losses: Callable[..., Tensor] | None = None,
    scaler: Any = None,
    step: int = 0,
    steps: int | None = None,
    samples: int | None = None,
    resume: bool | None = None,
    seed: int = 0,
) -> "Watch":
    """Watch a training loop, which stays unchanged.

    Args:
        model: The model to train.
        optimizer: Its optimizer, or a list of several.
        loss_fn: The loss module that the loop calls. None: the model returns its loss, or the loop calls ``pit.loss``.
        quantities: A preset (``"economy"``, ``"business"``, ``"full"``), or a list of names, classes or instances.
        every: Interval in steps, or a schedule step -> bool. None: as often as ``budget`` allows.
        budget: Share of the training time that tracking may cost, in (0, 1].
        grace: Seconds of tracking that are free at the start.
        run: Folder of the run. None: ``runs/<time>-<name>``. False: in memory only. If the folder holds a run that is
            not resumed, the new one goes to ``<folder>-2``.
        name: Name of the run. None: the name of its folder, which is named after the model.
        config: Hyperparameters to keep with the run: a dictionary, a Namespace or a dataclass.
        batch_axis: Axis of the model's inputs and outputs that counts samples.
        batch_size: Samples in each backward pass: a number, or a callable of the model's arguments. None: read from the
            inputs.
        losses: For a model that returns its loss: ``losses(output, *inputs)`` returns one loss per sample.
            An entry ``losses`` of the model's output does the same.
        scaler: The gradient scaler of mixed precision. None: it is recognised.
        step: Number of the first step, to resume a run.
        resume: Whether the run in the folder goes on from ``step``. None: if ``step`` is not 0.
        steps: Planned number of steps; the dashboard then shows the time that remains.
        samples: Random samples of each batch whose individual gradients are taken. None: all, or as many as fit.
        seed: Seed of the estimators. The global random state is never touched.
    """
    given: list[Any] = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    optimizers = [inner_optimizer(entry) for entry in given]
    check_torch(torch.__version__)
    check_parts(model, optimizers, loss_fn)
    check_options(batch_axis, batch_size, losses, scaler, step, steps, samples)
    settled = {} if config is None else hyperparameters(config)
    chosen = resolve(quantities)
    on_gpu = any(parameter.is_cuda for parameter in model.parameters())
    tiers = {tier_of(quantity) for quantity in chosen if not quantity.scheduled}
    schedule: Schedule = Budget(budget, grace, tiers=tiers, steps=steps, first=FIRST_ON_GPU if on_gpu else FIRST)
    if every is not None:
        schedule = as_schedule(every)
    settings = Settings(batch_axis, batch_size, losses, LossScale(scaler), seed=seed)
    settings.allowance, settings.buffers = Allowance(samples=samples, seed=seed), lambda: list(model.buffers())
    folder = None if disabled() else choose_folder(run, name or type(model).__name__)
    _close_earlier(model)
    pit = Watch(model, optimizers, loss_fn, chosen, schedule, settings, step)
    _watched[inner_model(model)] = ref(pit)
    if folder is not None:
        known = describe(model, optimizers, loss_fn, chosen, schedule, steps)
        known |= {} if name is None else {"name": str(name)}
        known |= {} if config is None else {"config": settled}
        pit.record(folder, known, step > 0 if resume is None else resume)
    pit.name = str(name) if name is not None else pit.name if pit.folder is None else pit.folder.name
    if pit.folder is not None:
        announce(pit.folder)
    return pit


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
        self._armed_for: tuple[bool, bool] | None = None  # what the forward pass runs under; None: no hooks
        self._alone = len(optimizers) == 1
        self._closed = disabled()
        measured = [] if self._closed else quantities
        roster = Roster(model, optimizers)
        self._compiled = eager.is_compiled(model)
        self._tracker = Tracker(roster.trainable, measured, schedule, settings, roster.learning_rates)
        self._pace = self._tracker.pace
        if not self._closed:
            for optimizer in optimizers:
                if not self._alone:  # which of them steps first says where a step begins
                    self._hooks.append(optimizer.register_step_pre_hook(self._before_update))
                self._hooks.append(optimizer.register_step_post_hook(self._after_update))
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
        return Recorded(self._tracker.journal, self.name, reached=self.step)

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
        return f"<cockpit.watch of {type(self._model).__name__}, {state}, {len(self.history.steps())} steps tracked>"

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
            if self._armed_for is not None:
                self._disarm()
            return
        recorder = self._tracker.recorder
        twice = recorder is not None and double_backward(recorder.needs)
        eagerly = self._tracker.settings.compiled_seen or self._compiled
        if self._armed_for != (twice, eagerly):
            self._arm(twice, eagerly)

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
            self._armed.callback(self._optimizers[0].register_step_pre_hook(self._before_update).remove)
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
        if id(optimizer) in self._stepped:  # it steps again before the others: the step before is over
            self._finish_step()
        if not self._stepped:
            self._tracker.before_update()

    @entry
    def _after_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        pace = self._pace
        if pace.resting > 0 and self._alone:
            pace.resting -= 1
            pace.rested += 1
            self.step += 1
            return
        self._stepped.add(id(optimizer))
        if len(self._stepped) == len(self._optimizers):
            self._finish_step()
        elif self._tracker.recorder is not None:
            self._tracker.recorder.in_update, self._tracker.recorder.updated = False, True

    def _finish_step(self) -> None:
        self._stepped.clear()
        tracked = self._tracker.recorder is not None
        self._tracker.after_update()
        self.step += 1
        self._tell(tracked)
        self._begin_step()

    @entry
    def _tell(self, tracked: bool) -> None:
        if self._recording is not None:
            self._recording.reached(self.step)
            if tracked:
                self._recording.book()


def _close_earlier(model: nn.Module) -> None:
    """A model has one watch at a time: a cell of a notebook that is run again starts a new one."""
    known = _watched.get(inner_model(model))
    earlier = None if known is None else known()
    if earlier is not None and not earlier._closed:
        earlier.close()
        where = "" if earlier.folder is None else f" (run {earlier.folder})"
        log.warning("%s was being watched%s: that watch is closed, a new one begins", type(model).__name__, where)


@atexit.register
def _at_exit() -> None:
    """What was tracked is written, however the script ends."""
    for pit in list(_open):
        pit._end(None, closed=False)
