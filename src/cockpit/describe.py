"""Metadata of a watched run, known before its first step: model, optimizers, loss, quantities, device."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from cockpit.core.schedule import Budget, Schedule
from cockpit.quantities._base import Quantity

LAYERS = 5000  # listed at most


def describe(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    loss_fn: Any,
    quantities: Sequence[Quantity],
    schedule: Schedule,
    steps: int | None,
) -> dict[str, Any]:
    """Return the metadata as plain data."""
    return {
        "model": _model(model),
        "device": _device(model),
        "optimizers": [_optimizer(optimizer) for optimizer in optimizers],
        "loss": None if loss_fn is None else _called(loss_fn),
        "quantities": [_quantity(quantity) for quantity in quantities],
        "schedule": _schedule(schedule),
        "steps": steps,
    }


def _model(model: nn.Module) -> dict[str, Any]:
    layers = []
    for name, module in model.named_modules():
        held = [(f"{name}.{key}" if name else key, p) for key, p in module.named_parameters(recurse=False)]
        if held:
            rows = [{"name": key, "shape": list(p.shape), "elements": p.numel()} for key, p in held]
            layers.append({"name": name, "type": type(module).__name__, "parameters": rows})
    elements = sum(p.numel() for p in model.parameters())
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"class": _called(model), "elements": elements, "trainable": trainable, "layers": layers[:LAYERS]}


def _device(model: nn.Module) -> str:
    devices = {p.device for p in model.parameters()}
    names = {torch.cuda.get_device_name(device) if device.type == "cuda" else device.type for device in devices}
    return ", ".join(sorted(names))


def _optimizer(optimizer: Optimizer) -> dict[str, Any]:
    groups = []
    for group in optimizer.param_groups:
        settings = {key: _plain(value) for key, value in group.items() if key not in ("params", "param_names")}
        groups.append(settings | {"parameters": len(group["params"])})
    return {"class": type(optimizer).__name__, "groups": groups}


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else list(value.shape)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, int | float | str | bool) or value is None else str(value)


def _quantity(quantity: Quantity) -> dict[str, Any]:
    cost = None if quantity.cost is None else quantity.cost.name.lower()
    return {"name": quantity.name, "kind": quantity.kind.value, "cost": cost}


def _schedule(schedule: Schedule) -> str:
    if isinstance(schedule, Budget):
        return f"within {schedule.share:.0%} of the training time, after {schedule.grace:g} s free"
    return (getattr(schedule, "__doc__", None) or "a schedule of yours").strip().split("\n")[0]


def _called(entry: Any) -> str:
    inner = getattr(entry, "_orig_mod", entry)  # what torch.compile wrapped
    return str(getattr(inner, "__name__", type(inner).__name__))
