"""One pass over the training data."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cockpit.bench.precision import full
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batch, Problem


class Training:
    """A model that is trained on the loss of a problem, L2 term included."""

    def __init__(
        self,
        problem: Problem,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        closure: bool = False,
        autocast: AbstractContextManager[object] | None = None,
        scaler: torch.amp.GradScaler | None = None,
        mean: Callable[[Tensor], Tensor] = torch.mean,
    ) -> None:
        """Put the parts together.

        Args:
            problem: What is trained.
            model: The model.
            optimizer: Its optimizer.
            closure: The optimizer computes the loss itself, perhaps several times a step.
            autocast: What the forward pass runs under.
            scaler: For gradients in half precision.
            mean: Makes one loss of individual ones; a watch's ``pit.loss`` sees them.
        """
        self.problem, self.model, self.optimizer = problem, model, optimizer
        self._closure, self._autocast, self._scaler, self._mean = closure, autocast or nullcontext(), scaler, mean

    def epoch(self, batches: Iterable[Batch], tick: Callable[[Tensor], None] | None = None) -> Tensor:
        """Train on all batches; returns the loss before each update, [steps], on the CPU.

        Args:
            batches: Of one epoch.
            tick: Called after each step with its loss.
        """
        self.model.train()
        if self.problem.begin is not None:
            self.problem.begin(self.model)
        losses = []
        for inputs, targets in batches:
            losses.append(self._step(inputs, targets))
            if tick is not None:
                tick(losses[-1])
        return torch.stack(losses).cpu()

    def loss(self, inputs: Any, targets: Any) -> Tensor:
        """The loss of a batch."""
        with self._autocast:
            losses = self.problem.losses(self.model(inputs), targets)
        return self._mean(full(losses)) + self.problem.regularisation(self.model)

    def _step(self, inputs: Any, targets: Any) -> Tensor:
        if self._closure:
            return self._step_by_closure(inputs, targets)
        self.optimizer.zero_grad()
        loss = self.loss(inputs, targets)
        if self._scaler is None:
            loss.backward()
            self._update()
        else:
            self._scaler.scale(loss).backward()
            self._scaler.step(self.optimizer)
            self._scaler.update()
        return loss.detach()

    def _update(self) -> None:
        try:
            self.optimizer.step()
        except RuntimeError as error:
            if not isinstance(self.optimizer, torch.optim.SparseAdam):
                raise
            raise CockpitError(f"SparseAdam cannot train {self.problem.name}: {error}") from error

    def _step_by_closure(self, inputs: Any, targets: Any) -> Tensor:
        found: list[Tensor] = []

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            loss = self.loss(inputs, targets)
            loss.backward()
            found.append(loss.detach())
            return loss

        self.optimizer.step(closure)  # type: ignore[arg-type]
        return found[0]  # the one before the update
