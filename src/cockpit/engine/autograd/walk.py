"""One walk: from autograd's nodes to what each sample contributed to each parameter, while autograd runs.

Hooks carry closures only: on a GPU they run on autograd's own thread. An error of ours never leaves a hook.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined, why
from cockpit.core.guard import entry
from cockpit.engine.autograd.checkpointed import Borrowed, recomputed
from cockpit.engine.autograd.eager import full_precision
from cockpit.engine.autograd.graph import Link, Node, family
from cockpit.engine.autograd.pull import of_operand, through
from cockpit.engine.autograd.uses import Uses
from cockpit.layers import AnyForm, Form, Summed, combine
from cockpit.layers.forms import Dense

Grads = tuple[Tensor | None, ...]


@dataclass
class Contribution:
    """What arrived at a parameter, or at a result that is computed from parameters."""

    forms: list[Form] = field(default_factory=list)  # from samples
    terms: list[Tensor] = field(default_factory=list)  # from terms of the loss that hang on parameters alone
    problem: str | None = None

    @property
    def form(self) -> AnyForm | None:
        """All that samples contributed; None: nothing."""
        return combine(self.forms) if self.forms else None

    @property
    def term(self) -> Tensor | None:
        """All that no sample contributed."""
        return torch.stack(self.terms).sum(0) if len(self.terms) > 1 else next(iter(self.terms), None)


Ready = Callable[[str, Contribution, Tensor], None]  # the gradient of a parameter is there: name, parts, what arrives


class Walk:
    """Hooks on one graph; ``ready`` is called for each parameter as soon as its gradient is there."""

    def __init__(self, uses: Uses, ready: Ready, fault: Callable[[Exception], None]) -> None:
        self._uses, self._ready, self.fault = uses, ready, fault
        self._arrived: dict[tuple[Node, int], Contribution] = {}
        self._handles: list[Any] = []

    def listen(self) -> None:
        """Place the hooks."""
        uses, add = self._uses, self._handles.append
        for node, slots in uses.edges.items():
            add(node.register_prehook(partial(self._used, node, slots)))
        for node, slots in uses.carriers.items():
            add(node.register_prehook(partial(self._carried, node, slots)))
        for node, slots in uses.terms.items():
            add(node.register_hook(partial(self._added, node, slots)))
        for node, name in uses.names.items():
            if name not in uses.uncovered:
                add(node.register_prehook(partial(self._complete, node, name)))

    def release(self) -> None:
        """Remove the hooks and let go of everything that was not asked for."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._arrived.clear()

    def _at(self, node: Node, slot: int) -> Contribution:
        return self._arrived.setdefault(node.next_functions[slot], Contribution())

    @entry
    def _used(self, node: Node, slots: list[int], grads: Grads) -> None:
        """An operation on the batch is about to run backwards."""
        reading = Borrowed(node) if recomputed(node) else node
        with torch.no_grad(), full_precision(_device(grads)):
            for slot in slots:
                end = self._at(node, slot)
                try:
                    end.forms.append(of_operand(reading, slot, grads, self._uses.layouts[node]))
                except Exception as error:  # a user's training never breaks because it is watched
                    end.problem = _reason(node, error)

    @entry
    def _carried(self, node: Node, slots: list[int], grads: Grads) -> None:
        """All uses of a result that is computed from parameters have run: carry what they gave down to its operands."""
        with torch.no_grad(), full_precision(_device(grads)):
            for output in range(len(grads)):
                came = self._arrived.pop((node, output), None)
                for slot in slots:
                    if came is None:
                        break
                    end = self._at(node, slot)
                    end.problem = end.problem or came.problem
                    try:
                        self._carry(came, end, Borrowed(node) if recomputed(node) else node, slot, output)
                    except Exception as error:
                        end.problem = why(error)

    @staticmethod
    def _carry(came: Contribution, end: Contribution, node: Node, slot: int, output: int) -> None:
        form = came.form
        for part in form.parts if isinstance(form, Summed) else () if form is None else (form,):
            end.forms.append(through(part, Link(node, slot, output)))
        if came.term is not None:
            carried = through(Dense(came.term[None]), Link(node, slot, output))
            end.terms.append(carried.form(0, 1)[0])

    @entry
    def _added(self, node: Node, slots: list[int], grads: Grads, _: Grads) -> None:
        """A term that hangs on parameters alone has run backwards."""
        for slot in slots:
            grad = grads[slot]
            if grad is not None:
                self._at(node, slot).terms.append(grad.detach())

    @entry
    def _complete(self, node: Node, name: str, grads: Grads) -> None:
        """The gradient of a parameter arrives."""
        grad, parts = grads[0], self._arrived.pop((node, 0), Contribution())
        if grad is not None:
            with torch.no_grad(), full_precision(_device(grads)):
                self._ready(name, parts, grad.detach())


def _reason(node: Node, error: Exception) -> str:
    """Why the samples are not told apart at an operation."""
    failed = f"{family(node).removesuffix('Backward')} cannot be taken one sample at a time"
    return str(error) if isinstance(error, Undefined) else f"{failed} ({why(error)[:80]})"


def _device(grads: Grads) -> str:
    return next((grad.device.type for grad in grads if grad is not None), "cpu")
