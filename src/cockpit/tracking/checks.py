"""Checks of what ``watch`` is given."""

import os
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from cockpit.core.errors import CockpitError

OLDEST = [2, 11]  # version of PyTorch
SHARDED = {"DTensor", "FullyShardedDataParallel"}  # no process holds a whole parameter


def check_torch(version: str) -> None:
    """Raise an error for a PyTorch that is older than what cockpit is written for."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if len(numbers) == 2 and numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise CockpitError(f"PyTorch {version} is installed; cockpit needs {oldest} or later: pip install -U torch")


def check_parts(model: Any, optimizers: Sequence[Any], loss_fn: Any) -> None:
    """Raise an error for a model, optimizers or a loss that cannot be watched."""
    if not isinstance(model, nn.Module):
        raise CockpitError(f"model is {type(model).__name__}; give a torch.nn.Module")
    trainable = [p for p in model.parameters() if p.requires_grad]
    if not trainable:
        has = "only frozen parameters" if any(True for _ in model.parameters()) else "no parameters"
        raise CockpitError(f"the model {type(model).__name__} has {has}; give a model that is trained")
    sharding = {type(part).__name__ for part in (*trainable, *model.modules())} & SHARDED
    if sharding and not disabled():
        raise CockpitError(
            f"the model is sharded over processes ({sharding.pop()}), which is not supported yet; "
            "watch it unsharded or under DistributedDataParallel, or set COCKPIT_DISABLED=1"
        )
    if any(is_lazy(p) for p in trainable):
        raise CockpitError("the model has lazy parameters without a shape; run a batch through it first")
    if not optimizers:
        raise CockpitError("the list of optimizers is empty; give the torch.optim.Optimizer that trains the model")
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise CockpitError(f"optimizer is {type(optimizer).__name__}; give a torch.optim.Optimizer, or a list")
    held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    if not held.intersection(id(p) for p in trainable):
        raise CockpitError(
            f"{type(optimizers[0]).__name__} holds none of the {len(trainable)} trainable parameters of "
            f"{type(model).__name__}; build it from this model's parameters(), after moving the model to its device"
        )
    if loss_fn is not None and not callable(loss_fn):
        raise CockpitError(f"loss_fn is {loss_fn!r}; give a loss module, or leave it out and call pit.loss in the loop")


def check_options(
    batch_axis: Any, batch_size: Any, losses: Any, scaler: Any, step: Any, steps: Any, samples: Any, memory: Any
) -> None:
    """Raise an error for an option of the wrong type or out of range."""
    if not whole(batch_axis, 0):
        raise CockpitError(f"batch_axis is {batch_axis!r}; give a whole number, 0 or more")
    if batch_size is not None and not callable(batch_size) and not whole(batch_size, 1):
        raise CockpitError(f"batch_size is {batch_size!r}; give a positive whole number or a callable")
    if losses is not None and not callable(losses):
        raise CockpitError(f"losses is {losses!r}; give a callable losses(output, *inputs) -> one loss per sample")
    if scaler is not None and not (hasattr(scaler, "get_scale") and hasattr(scaler, "is_enabled")):
        raise CockpitError(f"scaler is {scaler!r}; give a torch.amp.GradScaler")
    if not whole(step, 0):
        raise CockpitError(f"step is {step!r}; give the number of the first step, 0 or more and below 2^63")
    if steps is not None and not whole(steps, 1):
        raise CockpitError(f"steps is {steps!r}; give the number of steps that training will take, or None")
    if samples is not None and not whole(samples, 2):
        raise CockpitError(f"samples is {samples!r}; give a whole number, 2 or more, or None for all")
    if isinstance(memory, bool) or not isinstance(memory, int | float) or not 0 < memory <= 1:
        raise CockpitError(f"memory is {memory!r}; give a share of the training's memory, such as 0.05; at most 1")


def process() -> str | None:
    """Return which of several training processes this is; None: it trains alone."""
    spread = torch.distributed
    if not spread.is_available() or not spread.is_initialized() or spread.get_world_size() < 2:
        return None
    return f"process {spread.get_rank()} of {spread.get_world_size()}"


def whole(value: Any, least: int) -> bool:
    """Return whether this is a whole number from ``least`` up to the largest that can be stored."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def disabled() -> bool:
    """Return whether the environment switches all watches off."""
    return os.environ.get("COCKPIT_DISABLED", "") not in ("", "0")
