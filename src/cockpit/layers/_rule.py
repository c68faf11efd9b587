"""The contract of a rule and the table of rules."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from cockpit.layers.forms import Form
from cockpit.layers.layout import Layout

Node = torch.autograd.graph.Node


@dataclass(frozen=True, slots=True)
class Use:
    """One operation that uses a parameter (or a view of it) as operand ``slot``, while its backward is about to run."""

    node: Any  # autograd node: what it saved is still there
    slot: int  # which operand
    shape: tuple[int, ...]  # of the operand
    grads: tuple[Tensor | None, ...]  # gradients at the outputs of the operation
    layout: Layout  # where the samples are in grads[0]

    @property
    def grad(self) -> Tensor:
        """Gradient at the first output."""
        grad = self.grads[0]
        assert grad is not None
        return grad


Rule = Callable[[Use], Form | None]  # None: this rule does not cover the case, the generic one does

_FAMILIES = ("linear", "convolution", "embedding", "normalization", "elementwise")


def rule_for(node_name: str) -> Rule | None:
    """Return the rule for an autograd node such as ``AddmmBackward0``, or None."""
    return _table().get(node_name.rstrip("0123456789"))


def register(node_name: str, rule: Rule) -> None:
    """Add a rule for an autograd node, e.g. ``"AddmmBackward"``: how a plug-in teaches a new operation."""
    _table()[node_name] = rule


_rules: dict[str, Rule] = {}


def _table() -> dict[str, Rule]:
    if not _rules:
        for family in _FAMILIES:
            _rules.update(import_module(f"cockpit.layers.{family}").RULES)
    return _rules
