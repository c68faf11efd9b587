"""What one backward pass showed; a step has one, or several under gradient accumulation."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.engine.lanczos import Eigenpair
from cockpit.engine.needs import Diagonal
from cockpit.engine.vectors import scaled
from cockpit.layers.forms import AnyForm, Dense, joined, scale, wide

Vectors = dict[str, Tensor]
CHANGED = "an operation that uses it has changed since the last step; the next one is measured anew"


@dataclass
class Microbatch:
    """One backward pass; shares and forms still carry the loss scale."""

    samples: int
    loss: Tensor
    forms: dict[str, AnyForm]
    uncovered: dict[str, str]
    shares: Tensor | str  # each sample's share of the loss, or why it is not known
    coupled: bool = False
    diagonals: dict[Diagonal, list[Vectors] | str] = field(default_factory=dict)
    eigenpair: Eigenpair | str | None = None
    factor: float = 0.0  # what the forms have been multiplied with; 0: not yet
    origin: tuple[object, ...] = ()  # the forward calls it goes back to
    raw: Any = None  # what was collected instead of forms, for a program
    structure: int = 0  # of its graph, if it is familiar

    def thaw(self) -> None:
        """Make forms of what was collected."""
        if self.raw is not None:
            self.loss = self.loss.clone()  # the user may change it before it is read
            self.forms = self.raw.script.forms(self.raw.collected)
            try:
                self.shares = self.raw.shares(self.samples) if self.raw.calls else self.raw.why
            except Undefined as error:
                self.shares = why(error)
            self.raw = None

    def join(self, other: "Microbatch") -> None:
        """Add a second backward pass over the same forward call: the same samples, not more of them."""
        self.loss = self.loss + other.loss
        for name, form in other.forms.items():
            mine = self.forms.get(name)
            self.forms[name] = form if mine is None else joined(mine, form)
        self.uncovered.update(other.uncovered)
        both = isinstance(self.shares, Tensor) and isinstance(other.shares, Tensor)
        self.shares = self.shares + other.shares if both else other.shares  # type: ignore[operator]
        for need, found in other.diagonals.items():
            known = self.diagonals.get(need)
            if isinstance(known, list) and isinstance(found, list):
                found = [summed(list(pair), 1.0) for pair in zip(known, found, strict=True)]
            self.diagonals[need] = known if isinstance(known, str) else found
        if self.eigenpair is not None:
            self.eigenpair = "the Hessian of several accumulated backward passes cannot be multiplied with"

    def scale(self, factor: float) -> None:
        """Turn contributions into individual gradients."""
        if self.factor != factor:
            self.forms = {name: _times(form, factor / (self.factor or 1)) for name, form in self.forms.items()}
            self.factor = factor


def _times(form: AnyForm, factor: float) -> AnyForm:
    return Dense(scaled(wide(form.value), factor)) if isinstance(form, Dense) and factor != 1 else scale(form, factor)


def summed(parts: list[Vectors], loss_scale: float) -> Vectors:
    """Sum vectors by name, without the loss scale."""
    names = {name: None for part in parts for name in part}
    return {name: reduce(torch.add, (part[name] for part in parts if name in part)) / loss_scale for name in names}


def backpropagated(roots: Sequence[Tensor], seeds: Sequence[Tensor | None]) -> Tensor:
    """The number whose gradient is taken; a view of the user's own tensor where it is that."""
    if len(roots) == 1 and seeds[0] is None and roots[0].numel() == 1:
        seen = roots[0].detach()
        return seen.reshape(()) if seen.dim() else seen
    total = torch.zeros((), dtype=torch.float64, device=roots[0].device)
    for root, seed in zip(roots, seeds, strict=True):
        total += (root.detach() * (1 if seed is None else seed)).sum()
    return total
