"""Operations that broadcast a parameter against a batch: biases, scales, learned positions, PReLU."""

import torch
from torch import Tensor

from cockpit.layers._rule import Rule, Use
from cockpit.layers.forms import Dense, Form


def broadcast(use: Use, contribution: Tensor) -> Form | None:
    """Sum an elementwise contribution to the parameter's shape, each sample for itself."""
    full = tuple(contribution.shape)
    axis = use.layout.axis_of(full)
    if axis < 0:
        split = use.layout.split(contribution)
        return _flattened(use, split, full)
    padded = (1,) * (len(full) - len(use.shape)) + use.shape
    summed = [a for a in range(len(full)) if a != axis and padded[a] == 1 and full[a] != 1]
    if padded[axis] != 1:
        return None  # a parameter per sample position: not shared over the batch
    kept = contribution.sum(summed, keepdim=True) if summed else contribution
    return Dense(kept.movedim(axis, 0).reshape(use.layout.samples, *use.shape))


def _flattened(use: Use, split: Tensor, full: tuple[int, ...]) -> Form | None:
    """Rows of several positions, flattened: only a parameter along the last axis (a bias) is simple."""
    width = full[-1]
    if use.shape != (width,) or not use.layout.in_rows_of(width):
        return None
    rows = use.layout.rows(split.reshape(-1, width))
    return Dense(rows.sum(1))


def add(use: Use) -> Form | None:
    """``self + alpha * other``."""
    return broadcast(use, use.grad if use.slot == 0 else use.grad * use.node._saved_alpha)


def sub(use: Use) -> Form | None:
    """``self - alpha * other``."""
    return broadcast(use, use.grad if use.slot == 0 else use.grad * -use.node._saved_alpha)


def mul(use: Use) -> Form | None:
    """``self * other``."""
    other = use.node._saved_other if use.slot == 0 else use.node._saved_self
    return None if other is None else broadcast(use, use.grad * other)


def prelu(use: Use) -> Form | None:
    """``x if x > 0 else weight * x``."""
    if use.slot != 1:
        return None
    inputs = use.node._saved_self
    return broadcast(use, torch.where(inputs > 0, 0, inputs) * use.grad)


def expand(use: Use) -> Form | None:
    """A parameter copied to every sample (a class token): each copy's gradient is a sample's."""
    full = tuple(use.grad.shape)
    axis = use.layout.axis_of(full)
    return None if axis < 0 else broadcast(use, use.grad)


RULES: dict[str, Rule] = {
    "AddBackward": add,
    "SubBackward": sub,
    "MulBackward": mul,
    "PreluKernelBackward": prelu,
    "ExpandBackward": expand,
}
