"""Records the backward passes of one tracked step."""

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import why
from cockpit.engine.autograd.batch import note, noted
from cockpit.engine.autograd.graph import Graph, Node
from cockpit.engine.autograd.loss_calls import LossCall
from cockpit.engine.autograd.samples import Seen
from cockpit.engine.curvature.second_order import ACCUMULATED
from cockpit.engine.needs import Need
from cockpit.engine.step.backward import Backward, Pass
from cockpit.engine.step.prepared import NOTHING_SEEN
from cockpit.engine.step.reduction import Vectors
from cockpit.engine.step.settings import Settings
from cockpit.layers.forms import joined

CAREFUL = 8  # steps after one of several passes, in which contributions are kept until the step is over
SECOND_PASS = "a second backward pass came unexpectedly; the next step is measured with it"
CHANGED = "the parameters changed between the backward passes of one step"
INSIDE = "the optimizer steps inside backward(): its gradients are gone when the pass is over"
BY_HAND = "the gradients came without a call of loss.backward(): call that, in the place of torch.autograd.grad"
TOUCHED = "the gradients were changed between the backward passes of one step"


class Recorder:
    """Sees forward calls, loss calls and backward passes of one step."""

    def __init__(
        self, step: int, parameters: Mapping[str, nn.Parameter], needs: frozenset[Need], settings: Settings
    ) -> None:
        self.step, self.parameters, self.needs, self.settings = step, dict(parameters), needs, settings
        self.passes: list[Pass] = []
        self.gradient: Vectors = {}  # what the step's passes added to ``.grad``, without the loss scale
        self.line: Mapping[str, Tensor] = {}  # the direction of the step before, where it is to be looked along
        self.flaw: str | None = None
        self.loss_scale = 1.0
        self.root: Tensor | None = None
        self.seconds = 0.0
        self.retain = False
        self.in_update = False
        self.known_size: int | None = None  # the paper's ``info``
        self.known_losses: Tensor | None = None
        self.curvature_seconds = 0.0
        self.strays = 0  # backward passes that began anew, or elsewhere
        self.updated = False  # an optimizer has stepped: what comes now belongs to the next step
        self._keys = f"cockpit.{id(self)}.model", f"cockpit.{id(self)}.loss"  # our notes on autograd's nodes
        self._noted: set[int] = set()  # numbers of the nodes that have one
        self._backward: Backward | None = None
        self._present: dict[str, Tensor | None] = {}  # where ``.grad`` holds more than the passes gave: what they gave
        self._marks: dict[str, tuple[int, int]] = {}
        self._versions: dict[str, int] = {}
        self._expected = max(settings.passes, 2) if settings.careful else settings.passes
        self._last, self._calls, settings.careful = settings.passes, 0, max(0, settings.careful - 1)
        settings.allowance.begin()

    # ---- the forward pass

    def saw_model(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A forward call of the model."""
        settings = self.settings
        told = settings.batch_axis, settings.batch_size, settings.losses
        self._noted.update(note(self._keys[0], args, kwargs, output, *told))

    def saw_loss(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A call of the loss."""
        if isinstance(output, Tensor) and output.grad_fn is not None:
            self._note_loss(output.grad_fn, LossCall.of_module(module, args, output))

    def given(self, values: Tensor, mean: Tensor) -> None:
        """Individual losses handed over by the user, and their mean."""
        if mean.grad_fn is not None:
            self._note_loss(mean.grad_fn, LossCall.of_values(values, mean))

    def _note_loss(self, node: Node, call: LossCall) -> None:
        node.metadata[self._keys[1]] = call
        self._noted.add(node._sequence_nr())

    # ---- the backward pass

    def before(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> None:
        """A backward pass is about to run: look at its graph."""
        begin = time.perf_counter()
        self._backward = None
        if not self.passes:
            self.flaw = None  # of a pass that never ended
        try:
            self._backward = self._begin(roots, seeds)
        except Exception as error:  # a user's training never breaks because it is watched
            self.flaw = why(error)
        self.seconds += time.perf_counter() - begin

    def attach(self) -> bool:
        """Place hooks on the graph."""
        if self._backward is not None:
            try:
                self._backward.listen(list(self._present))
            except Exception as error:
                self._backward.release()
                self._backward, self.flaw = None, why(error)
        return self.retain

    def alone(self) -> bool:
        """Whether autograd may run on this thread: handing Python over to its own and back takes longer than hooks."""
        devices = {parameter.device for parameter in self.parameters.values()}
        return self._backward is not None and len(devices) == 1 and not torch.distributed.is_initialized()

    def detach(self) -> None:
        """Remove them."""
        if self._backward is not None:
            self._backward.release()

    def after(self) -> bool:
        """The gradients are complete: keep what the pass showed; True if it was one of ours."""
        finished, self._backward = self._backward, None
        if finished is None:
            return False
        begin = time.perf_counter()
        found = finished.finish()
        self._calls += 1
        self.settings.passes = self._calls
        if self._calls > 1:
            self.settings.careful = CAREFUL
        self.flaw = self.flaw or found.problem
        self._add(found)
        self._take_gradient(found)
        self.known_losses = None
        self.seconds += time.perf_counter() - begin
        return True

    def _begin(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> Backward | None:
        known = {id(parameter) for parameter in self.parameters.values()}
        graph = Graph([root.grad_fn for root in roots if root.grad_fn is not None], known)
        ours = not known.isdisjoint(graph.leaves) or graph.checkpointed()
        if not ours or not self._belongs(graph):
            return None
        self.loss_scale, self.root = self.settings.scale.of(roots[0]), roots[0]
        notes = noted(self._keys[0], graph, self._noted), noted(self._keys[1], graph, self._noted)
        seen = Seen(*notes, self.known_size, self.known_losses)
        backward = Backward(graph, roots, seeds, self.parameters, seen, self.needs, self.settings, self.loss_scale)
        seed = (self.settings.seed * 1_000_003 + self.step) * 31 + len(self.passes)
        self.curvature_seconds += backward.second_order(roots, seeds, seed, bool(self.passes) or self._last > 1)
        if self._expected < 2 and not self.passes:
            backward.reduce_at_once(self.line, sure=self._expected == 1)
        return backward

    def _add(self, new: Pass) -> None:
        """Keep a backward pass: more samples, or a second pass over samples that were seen."""
        if self.passes and (self.passes[0].numbers or new.numbers):
            self.flaw = self.flaw or SECOND_PASS
        for known in self.passes:
            same = known.origin and {id(call) for call in known.origin} == {id(call) for call in new.origin}
            if same and known.samples == new.samples:
                _join(known, new)
                return
        self.passes.append(new)

    def without_a_pass(self) -> None:
        """The optimizer is about to step, and no backward pass is over."""
        running, self._backward = self._backward, None
        if running is not None:
            running.release()
            self.passes.append(running.found)
            self.flaw = running.found.problem = running.found.shares = INSIDE
        elif self.flaw is None:
            by_hand = any(p.grad is not None for p in self.parameters.values())
            self.flaw = BY_HAND if by_hand else NOTHING_SEEN

    def _belongs(self, graph: Graph) -> bool:
        """Whether this backward pass adds to the gradient of the step."""
        if self.updated:
            return False
        moved = {id(p) for n, p in self.parameters.items() if p._version != self._versions.get(n, p._version)}
        if self.in_update and moved:
            return False  # a closure evaluated elsewhere: the step is judged where it began
        untouched = not self.passes or self._untouched()
        if not untouched:
            self.strays += 1
            if not moved.isdisjoint(graph.leaves):
                return False  # the same without a closure: the user moved the parameters, and may move them back
            self._restart()
        elif moved and self.passes:
            self.flaw = CHANGED
        if not self.passes:
            shared = self.settings.process is not None
            self._present = {name: None for name, p in self.parameters.items() if shared or _apart(p)}
            self._versions = {name: p._version for name, p in self.parameters.items()}
        return True

    def _untouched(self) -> bool:
        """Whether the gradients are as the last backward pass left them."""
        return all(
            p.grad is not None and (id(p.grad), p.grad._version) == self._marks[name]
            for name, p in self.parameters.items()
            if name in self._marks
        )

    def _restart(self) -> None:
        """The user cleared the gradients: what came before does not count."""
        cleared = all(p.grad is None or not bool(p.grad.any()) for p in self.parameters.values())
        self.passes.clear()
        self._calls = 0
        self.settings.allowance.begin()
        self.flaw = None if cleared else TOUCHED

    def _take_gradient(self, found: Pass) -> None:
        """Read g: what the backward passes of this step added to ``.grad``."""
        self._marks = {}
        for name, parameter in self.parameters.items():
            grad = parameter.grad
            if grad is None:
                self.gradient.pop(name, None)
                continue
            self._marks[name] = id(grad), grad._version
            if name in self._present:
                known, arrived = self._present[name], found.gradient.pop(name, None)
                grad = known if arrived is None else arrived if known is None else known + arrived
                self._present[name] = grad
                if grad is None:
                    continue
            if grad.requires_grad or grad.is_sparse:
                grad = grad.detach().to_dense()
            self.gradient[name] = grad if self.loss_scale == 1 else grad / self.loss_scale


def _apart(parameter: Tensor) -> bool:
    """Whether ``.grad`` will hold something else than what arrives: there is one, or a hook may change it."""
    return parameter.grad is not None or bool(getattr(parameter, "_post_accumulate_grad_hooks", None))


def _join(known: Pass, new: Pass) -> None:
    """Add a second backward pass over the same forward call: the same samples, not more of them."""
    known.loss = known.loss + new.loss
    for name, form in new.forms.items():
        known.forms[name] = joined(known.forms[name], form) if name in known.forms else form
    for mine, other in ((known.terms, new.terms), (known.off, new.off)):
        for name, tensor in other.items():
            mine[name] = mine[name] + tensor if name in mine else tensor
    known.uncovered = known.uncovered | new.uncovered
    known.regularised = known.regularised | new.regularised
    known.problem = known.problem or new.problem
    if known.chosen is not None or new.chosen is not None:
        known.problem = known.problem or SECOND_PASS
    both = isinstance(known.shares, Tensor) and isinstance(new.shares, Tensor)
    known.shares = known.shares + new.shares if both else new.shares  # type: ignore[operator]
    known.curvature.estimated |= new.curvature.estimated
    diagonals = known.curvature.diagonals
    for need, found in new.curvature.diagonals.items():
        mine_then = diagonals.get(need)
        if isinstance(mine_then, list) and isinstance(found, list):
            diagonals[need] = [{k: a[k] + b[k] for k in a} for a, b in zip(mine_then, found, strict=True)]
        elif not isinstance(mine_then, str):
            diagonals[need] = found
    if known.curvature.eigenpair is not None:
        known.curvature.eigenpair = ACCUMULATED
