"""Replay a case in float64 and compute everything at every step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import torch
from tests.cases import Batch, Case, cast
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import quantities as q
from .curvature import by_name, ggn_diagonal, hessian, largest_eigenvalue
from .gradients import (
    Named,
    coupled_contributions,
    gradient,
    individual_gradients,
    trainable,
)

Values = dict[str, Any]
EPSILON = 1e-5  # of the original's EarlyStopping and MeanGSNR


@dataclass(frozen=True)
class Step:
    """All that the formulas need of one step."""

    theta: Named
    moved: Named  # theta_{t+1} - theta_t
    lr: dict[str, float]
    loss: float  # with a penalty, if the user adds one
    gradient: Named  # the same
    losses: Tensor  # [B], B times each sample's contribution to L
    g_n: Named  # [B, *shape]


def snapshot(model: nn.Module) -> Named:
    """Copies of the trained parameters."""
    return {name: p.detach().clone() for name, p in trainable(model).items()}


def learning_rates(model: nn.Module, optimizer: Any) -> dict[str, float]:
    """The learning rate of each parameter, by name."""
    names = {p: name for name, p in trainable(model).items()}
    several = optimizer if isinstance(optimizer, list) else [optimizer]
    groups = [group for one in several for group in one.param_groups]
    return {names[p]: float(g["lr"]) for g in groups for p in g["params"] if p in names}


def exact(case: Case) -> Case:
    """The case in float64, without torch.compile."""
    return replace(case, dtype=torch.float64, wrap=None)


def exact_batches(case: Case) -> list[Batch]:
    """The very numbers of the case's batches, in float64."""
    return [cast(cast(batch, case.dtype), torch.float64) for batch in case.rounded()]


def trajectory(case: Case) -> tuple[nn.Module, list[Named], list[dict[str, float]]]:
    """The model, parameters before the first and after each step, learning rates."""
    model, optimizer, loss_fn, _ = exact(case).build()
    start = copy.deepcopy(model)
    thetas, rates = [snapshot(model)], []

    def on_step() -> None:
        thetas.append(snapshot(model))
        rates.append(learning_rates(model, optimizer))

    run = case.style.replay or case.style.run
    run(model, optimizer, loss_fn, exact_batches(case), on_step)
    return start, thetas, rates


def parts_of_loss(
    case: Case, micro_batches: list[tuple[float, Batch]], model: nn.Module
) -> list[tuple[Tensor, Callable[[Tensor], Tensor]]]:
    """Every output that the loss sees, and its part of L as a function of it."""
    parts = []
    for scale, batch in micro_batches:
        for weight, read in case.style.terms:
            output, target = read(model, batch.args, batch.target)
            factor = scale * weight / case.loss.count(target)
            parts.append((output, partial(_part, case, factor, target)))
    return parts


def without_log_softmax(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """A model and its end: a log-softmax belongs to the loss, which is linear in its result and has no curvature."""
    if isinstance(model, nn.Sequential) and isinstance(model[-1], nn.LogSoftmax):
        return model[:-1], model[-1]
    return model, nn.Identity()


def _after(end: nn.Module, part: Callable[[Tensor], Tensor], output: Tensor) -> Tensor:
    return part(end(output))


def _part(case: Case, factor: float, target: Tensor, output: Tensor) -> Tensor:
    return factor * case.loss.total(output, target)


def data_loss(case: Case, micro_batches: list[tuple[float, Batch]], model: nn.Module) -> Tensor:
    """The part of L that comes from samples."""
    parts = parts_of_loss(case, micro_batches, model)
    return torch.stack([part(output) for output, part in parts]).sum()


def whole_loss(case: Case, micro_batches: list[tuple[float, Batch]], model: nn.Module) -> Tensor:
    """L, with the term that the user adds."""
    loss = data_loss(case, micro_batches, model)
    return loss if case.style.penalty is None else loss + case.style.penalty(model)


def _share(case: Case, scale: float, sample: Batch, counts: list[float], model: nn.Module) -> Tensor:
    """The contribution to L of one sample, run alone."""
    total = torch.zeros((), dtype=torch.float64)
    for (weight, read), count in zip(case.style.terms, counts, strict=True):
        output, target = read(model, sample.args, sample.target)
        total = total + scale * weight * case.loss.total(output, target) / count
    return total


def alone(case: Case, micro_batches: list[tuple[float, Batch]], model: nn.Module) -> tuple[Named, Tensor]:
    """g_n and individual losses, every sample run alone."""
    shares = []
    for scale, batch in micro_batches:
        counts = [case.loss.count(read(model, batch.args, batch.target)[1]) for _, read in case.style.terms]
        for n in range(case.size(batch)):
            shares.append(partial(_share, case, scale, case.take(batch, n), counts))
    return individual_gradients(model, shares)


def together(case: Case, micro_batches: list[tuple[float, Batch]], model: nn.Module) -> tuple[Named, Tensor]:
    """The same where samples meet inside the model, from forward passes of whole batches."""
    B = sum(case.size(batch) for _, batch in micro_batches)
    found: list[Named] = []
    losses: list[Tensor] = []
    for scale, batch in micro_batches:
        loss = partial(data_loss, case, [(scale, batch)])
        found.append(coupled_contributions(model, case.size(batch), loss))
        ((_, read),) = case.style.terms
        output, target = read(model, batch.args, batch.target)
        factor = scale / case.loss.count(target)
        for n in range(case.size(batch)):
            losses.append(factor * case.loss.total(output[n : n + 1], target[n : n + 1]).detach())
    g_n = {name: B * torch.cat([f[name] for f in found]) for name in found[0]}
    return g_n, B * torch.stack(losses)


def _first_order(step: Step, start: Named) -> Values:
    return {
        "Loss": step.loss,
        "Parameters": q.parameters(step.theta),
        "Distance": q.norms(q.difference(step.theta, start)),
        "UpdateSize": q.norms(step.moved),
        "GradNorm": q.norms(step.gradient),
        "CABS": q.cabs(step.g_n, step.lr, step.loss),
        "EarlyStopping": q.early_stopping(step.g_n),
        f"EarlyStopping[epsilon={EPSILON:g}]": q.early_stopping(step.g_n, EPSILON),
        "MeanGSNR": q.mean_gsnr(step.g_n),
        f"MeanGSNR[epsilon={EPSILON:g}]": q.mean_gsnr(step.g_n, EPSILON),
        "NormTest": q.norm_test(step.g_n),
        "InnerTest": q.inner_test(step.g_n),
        "OrthoTest": q.ortho_test(step.g_n),
        "GradHist1d": q.grad_hist_1d(step.g_n),
        "GradHist2d": q.grad_hist_2d(step.g_n, step.theta),
        "Alpha": None,
    }


def _second_order(case: Case, micro_batches: list[tuple[float, Batch]], model: nn.Module, g_n: Named) -> Values:
    dense = hessian(model, partial(whole_loss, case, micro_batches))
    body, end = without_log_softmax(model)
    parts = [(output, partial(_after, end, part)) for output, part in parts_of_loss(case, micro_batches, body)]
    ggn = ggn_diagonal(model, parts)
    values: Values = {"HessMaxEV": largest_eigenvalue(dense)}
    for flat, suffix in ((ggn, ""), (dense.diagonal(), "[hessian]")):
        diagonal = by_name(model, flat)
        values[f"HessTrace{suffix}"] = {name: float(diagonal[name].sum()) for name in g_n}
        values[f"TICDiag{suffix}"] = q.tic_diag(g_n, diagonal)
        values[f"TICTrace{suffix}"] = q.tic_trace(g_n, diagonal)
    return values


def observe(
    case: Case,
    micro_batches: list[tuple[float, Batch]],
    model: nn.Module,
    before: Named,
    after: Named,
    lr: dict[str, float],
) -> Step:
    """Gradients and losses at `before`, which the model must hold."""
    find = together if case.coupled else alone
    g_n, losses = find(case, micro_batches, model)
    whole = gradient(model, partial(whole_loss, case, micro_batches))
    data = gradient(model, partial(data_loss, case, micro_batches))
    for name, g in g_n.items():  # the definition of g_n: their mean is the gradient
        torch.testing.assert_close(g.mean(0), data[name], rtol=1e-9, atol=1e-12, equal_nan=True)
    return Step(
        theta=before,
        moved=q.difference(after, before),
        lr=lr,
        loss=float(whole_loss(case, micro_batches, model).detach()),
        gradient={name: g for name, g in whole.items() if g is not None},
        losses=losses,
        g_n=g_n,
    )


@cache
def reference_steps(case: Case, steps: int | None = None) -> list[Step]:
    """What the formulas need, for each of the first `steps` steps (default: all)."""
    with sdpa_kernel(SDPBackend.MATH):
        model, thetas, rates = trajectory(case)
        found = []
        for t, micro_batches in enumerate(_plan(case)[:steps]):
            _load(model, thetas[t])
            found.append(observe(case, micro_batches, model, thetas[t], thetas[t + 1], rates[t]))
        return found


@cache
def reference_run(
    case: Case, steps: int | None = None, second_order: bool = True, leave_out: tuple[str, ...] = ()
) -> dict[int, Values]:
    """{step: {quantity: value}}; None where undefined. Do not change what it returns.

    Variants carry their option: `EarlyStopping[epsilon=1e-05]`, `MeanGSNR[epsilon=1e-05]`,
    `HessTrace[hessian]`, `TICDiag[hessian]`, `TICTrace[hessian]`; without it they are
    epsilon = 0 and the GGN. Parameters named in `leave_out` are in no sum over
    g_n. Alpha of the last step is None: it needs the next batch.
    """
    observed = [
        replace(step, g_n={name: g for name, g in step.g_n.items() if name not in leave_out})
        for step in reference_steps(case, steps)
    ]
    values = {t: _first_order(step, observed[0].theta) for t, step in enumerate(observed)}
    for t, (a, b) in enumerate(pairwise(observed)):
        values[t]["Alpha"] = q.alpha(a.moved, (a.losses, b.losses), (a.g_n, b.g_n))
    if second_order:
        with sdpa_kernel(SDPBackend.MATH):
            model = replace(exact(case), model=case.twin or case.model).build().model
            for t, micro_batches in enumerate(_plan(case)[:steps]):
                _load(model, observed[t].theta)
                values[t] |= _second_order(case, micro_batches, model, observed[t].g_n)
    return values


def _plan(case: Case) -> list[list[tuple[float, Batch]]]:
    return case.style.plan(exact_batches(case))


def _load(model: nn.Module, theta: Named) -> None:
    with torch.no_grad():
        for name, p in trainable(model).items():
            p.copy_(theta[name])
