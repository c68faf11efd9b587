"""Records the backward passes of one tracked step."""

import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import why
from cockpit.engine.backward_pass import BackwardPass, Seen
from cockpit.engine.batch import Forward
from cockpit.engine.curvature import Vectors
from cockpit.engine.graph import Graph
from cockpit.engine.losses import LossCall, in_graph
from cockpit.engine.needs import Need
from cockpit.engine.observation import Microbatch
from cockpit.engine.settings import Settings
from cockpit.engine.tap import Proceed


class Recorder:
    """Sees forward calls, loss calls and backward passes of one step."""

    def __init__(
        self, step: int, parameters: Mapping[str, nn.Parameter], needs: frozenset[Need], settings: Settings
    ) -> None:
        self.step, self.parameters, self.needs, self.settings = step, dict(parameters), needs, settings
        self.microbatches: list[Microbatch] = []
        self.gradient: Vectors = {}
        self.flaw: str | None = None
        self.loss_scale = 1.0
        self.half: torch.dtype | None = None
        self.root: Tensor | None = None
        self.seconds = 0.0
        self.retain = False
        self.in_update = False
        self.known_size: int | None = None  # the paper's ``info``
        self.known_losses: Tensor | None = None
        self.curvature_seconds = 0.0
        self._running = False
        self._forwards: deque[Forward] = deque(maxlen=4)
        self._calls: deque[LossCall] = deque(maxlen=8)
        self._before: dict[str, Tensor] = {}
        self._marks: dict[str, tuple[int, int]] = {}
        self._versions: dict[str, int] = {}

    # ---- the forward pass

    def saw_model(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A forward call of the model."""
        self._forwards.append(Forward.of(args, kwargs, output))

    def saw_loss(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A call of the loss."""
        if isinstance(output, Tensor) and output.grad_fn is not None:
            self._calls.append(LossCall(output, module=module, args=args))

    def given(self, values: Tensor, mean: Tensor) -> None:
        """Individual losses handed over by the user, and their mean."""
        if mean.grad_fn is not None:
            self._calls.append(LossCall(mean, values=values))

    # ---- the backward pass

    def backward(
        self, proceed: Proceed, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...], done: Callable[[], None]
    ) -> None:
        """Run one backward pass and keep what it shows; ``done`` is called when the gradients are complete."""
        if self._running:  # a backward pass inside this one: reentrant checkpointing, a function's own gradient
            return proceed()
        begin = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the user sees each warning once, from the backward pass itself
                started = self._begin(roots, seeds)
        except Exception as error:  # a user's training never breaks because it is watched
            self.flaw, started = why(error), None
        self.seconds += time.perf_counter() - begin
        self._running = True
        try:
            proceed(self.retain)
        finally:
            self._running = False
            if started is not None:
                started.release()
        if started is not None:
            begin = time.perf_counter()
            self._end(started)
            self.seconds += time.perf_counter() - begin
            done()

    def _begin(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> BackwardPass | None:
        graph = Graph([root.grad_fn for root in roots if root.grad_fn is not None])
        ours = any(id(parameter) in graph.leaves for parameter in self.parameters.values())
        if not ours and not graph.checkpointed():
            return None
        if not self._belongs():
            return None
        self.loss_scale, self.root = self.settings.scale.of(roots[0]), roots[0]
        seen = Seen(
            [forward for forward in self._forwards if any(t.grad_fn in graph for t in forward.tensors)],
            in_graph(list(self._calls), graph),
            self.known_size,
            self.known_losses,
        )
        key = (self.settings.seed * 1_000_003 + self.step) * 31 + len(self.microbatches)
        return BackwardPass(graph, roots, seeds, self.parameters, seen, self.needs, self.settings, key)

    def _end(self, finished: BackwardPass) -> None:
        self.half = finished.half
        self.curvature_seconds += finished.curvature_seconds
        self.flaw = self.flaw or finished.problem
        self.microbatches.append(finished.microbatch())
        self._take_gradient()
        self.forget()

    def _belongs(self) -> bool:
        """Whether this backward pass adds to the gradient of the step."""
        moved = any(p._version != self._versions.get(name, p._version) for name, p in self.parameters.items())
        if moved and self.in_update:
            return False  # a closure evaluated elsewhere: the step is judged where it began
        if self.microbatches and not self._untouched():
            self._restart()
        elif moved and self.microbatches:
            self.flaw = "the parameters changed between the backward passes of one step"
        if not self.microbatches:
            grads = {name: p.grad for name, p in self.parameters.items()}
            self._before = {name: grad.detach().clone() for name, grad in grads.items() if grad is not None}
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
        self.microbatches.clear()
        self.flaw = None if cleared else "the gradients were changed between the backward passes of one step"

    def _take_gradient(self) -> None:
        """Read g: what the backward passes of this step added to ``.grad``."""
        self._marks = {name: (id(p.grad), p.grad._version) for name, p in self.parameters.items() if p.grad is not None}
        for name, parameter in self.parameters.items():
            grad = parameter.grad
            if grad is None:
                self.gradient[name] = torch.zeros_like(parameter)
                continue
            grad = grad.detach().to_dense() if grad.is_sparse else grad.detach()
            if name in self._before:
                grad = grad - self._before[name].to_dense()
            self.gradient[name] = grad if self.loss_scale == 1 else grad / self.loss_scale

    def forget(self) -> None:
        """Let go of tensors of the forward pass."""
        self._forwards.clear()
        self._calls.clear()
        self.known_losses = None
