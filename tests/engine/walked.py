"""One step on the engine alone, and the same individual gradients one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cockpit.engine.needs import DOT_GRAD, GRADIENT, SQ_NORM, SUM_SQ, Need
from cockpit.engine.step.observation import Observation
from cockpit.engine.step.recorder import Recorder
from cockpit.engine.step.settings import Settings

USUAL: frozenset[Need] = frozenset({SQ_NORM, DOT_GRAD, SUM_SQ, GRADIENT})


class Trial:
    """A model whose steps are recorded."""

    def __init__(self, model: nn.Module, needs: frozenset[Need] = USUAL, settings: Settings | None = None) -> None:
        self.model, self.needs, self.settings = model, needs, Settings() if settings is None else settings
        self.steps = 0

    def step(self, *losses: Callable[[], Tensor], clear: bool = True) -> Observation:
        """Backpropagate what each of them returns."""
        named = dict(self.model.named_parameters())
        recorder = Recorder(self.steps, named, self.needs, self.settings)
        handle = self.model.register_forward_hook(
            lambda module, args, kwargs, output: recorder.saw_model(args, kwargs, output), with_kwargs=True
        )
        try:
            for loss_of in losses:
                loss = loss_of()
                recorder.before((loss,), (None,))
                recorder.attach()
                loss.backward()
                recorder.detach()
                recorder.after()
        finally:
            handle.remove()
        parameters = {name: p.detach() for name, p in named.items()}
        seen = Observation(
            self.steps,
            parameters,
            recorder.gradient,
            recorder.passes,
            self.settings,
            recorder.loss_scale,
            flaw=recorder.flaw,
        )
        if not seen.flaw:
            seen.prepare(self.needs)
        self.steps += 1
        if clear:
            self.model.zero_grad()
        return seen


def one_by_one(model: nn.Module, shares: Sequence[Callable[[], Tensor]]) -> dict[str, Tensor]:
    """g_n = B times sample n's contribution, [B, *shape] of each parameter, in the precision of the model."""
    named = dict(model.named_parameters())
    rows = [torch.autograd.grad(share(), list(named.values()), allow_unused=True) for share in shares]
    found = {}
    for k, (name, p) in enumerate(named.items()):
        parts = [torch.zeros_like(p) if row[k] is None else row[k] for row in rows]
        found[name] = len(rows) * torch.stack(parts)  # type: ignore[arg-type]
    return found


def check(seen: Observation, expected: dict[str, Tensor], rtol: float = 1e-9, atol: float = 1e-12) -> None:
    """Every covered parameter's numbers are those of its individual gradients."""
    norms, dots, second = seen.sq_norms(), seen.dots(), seen.elements(SUM_SQ)
    for name in seen.names:
        g = expected[name]
        close = {"rtol": rtol, "atol": atol}
        torch.testing.assert_close(norms[name], g.reshape(len(g), -1).square().sum(1).double(), **close)
        torch.testing.assert_close(dots[name], (g.reshape(len(g), -1) @ g.mean(0).reshape(-1)).double(), **close)
        torch.testing.assert_close(second[name], g.square().sum(0), **close)
