"""``watch``: attach to a model, its optimizer and its loss; the training loop stays unchanged."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cockpit.core.budget import FIRST
from cockpit.core.config import hyperparameters
from cockpit.core.schedule import Budget, Schedule, as_schedule
from cockpit.engine.autograd.allowance import SHARE, Allowance
from cockpit.engine.autograd.scaler import LossScale
from cockpit.engine.step.settings import Settings
from cockpit.quantities import resolve
from cockpit.store.folder import announce, choose_folder
from cockpit.tracking.checks import check_options, check_parts, check_torch, disabled, process
from cockpit.tracking.describe import describe
from cockpit.tracking.pace import tier_of
from cockpit.tracking.roster import inner_model, inner_optimizer
from cockpit.tracking.watched import Watch

log = logging.getLogger("cockpit")

FIRST_ON_GPU = 0.3  # seconds: what the device loads when it computes something for the first time
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
    memory: float = SHARE,
    resume: bool | None = None,
    seed: int = 0,
) -> "Watch":
    """Watch a training loop, which stays unchanged.

    Args:
        model: The model to train.
        optimizer: Its optimizer, or a list of several.
        loss_fn: The loss module that the loop calls. None: the loss is read from the graph, or handed to ``pit.loss``.
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
        memory: Share of the training's peak memory that a tracked step may add, in (0, 1]; 64 MiB where that is more.
            Where it is too little for all samples, random ones are taken.
        seed: Seed of the estimators. The global random state is never touched.
    """
    given: list[Any] = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    optimizers = [inner_optimizer(entry) for entry in given]
    check_torch(torch.__version__)
    check_parts(model, optimizers, loss_fn)
    check_options(batch_axis, batch_size, losses, scaler, step, steps, samples, memory)
    settled = {} if config is None else hyperparameters(config)
    chosen = resolve(quantities)
    on_gpu = any(parameter.is_cuda for parameter in model.parameters())
    tiers = {tier_of(quantity) for quantity in chosen if not quantity.scheduled}
    schedule: Schedule = Budget(budget, grace, tiers=tiers, steps=steps, first=FIRST_ON_GPU if on_gpu else FIRST)
    if every is not None:
        schedule = as_schedule(every)
    settings = Settings(batch_axis, batch_size, losses, LossScale(scaler), seed=seed)
    settings.process, settings.buffers = process(), lambda: list(model.buffers())
    settings.allowance = Allowance(samples=samples, share=memory, seed=seed)
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


def _close_earlier(model: nn.Module) -> None:
    """A model has one watch at a time: a cell of a notebook that is run again starts a new one."""
    known = _watched.get(inner_model(model))
    earlier = None if known is None else known()
    if earlier is not None and not earlier._closed:
        earlier.close()
        where = "" if earlier.folder is None else f" (run {earlier.folder})"
        log.warning("%s was being watched%s: that watch is closed, a new one begins", type(model).__name__, where)
