"""Individual losses from the graph of the loss, against the losses of single samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cockpit import watch
from cockpit.core.errors import Undefined
from cockpit.engine.autograd.graph import Graph, Result
from cockpit.engine.autograd.losses import individual_losses, results
from cockpit.engine.autograd.placement import Source, ask
from cockpit.layers.layout import Layout

N, C, T = 9, 4, 3
generator = torch.Generator().manual_seed(0)
X = torch.randn(N, 6, generator=generator, dtype=torch.float64)
Y = torch.randint(C, (N,), generator=generator)
HOT = F.one_hot(Y, C).double()
W = torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64)
SOFT = torch.rand(N, C, generator=generator, dtype=torch.float64)
SOFT /= SOFT.sum(1, keepdim=True)
A, OLD = torch.randn(N, generator=generator, dtype=torch.float64), torch.full((N,), -1.4, dtype=torch.float64)

LossOf = Callable[[Tensor], Tensor]


def each(z: Tensor, **options: Any) -> Tensor:
    return F.cross_entropy(z, Y, reduction="none", **options)


def smoothed(z: Tensor) -> Tensor:
    return each(z, label_smoothing=0.1, weight=W) / W[Y].sum()


def entropy(log_p: Tensor) -> Tensor:
    return (log_p * log_p.exp()).sum(1)


def clipped(z: Tensor) -> Tensor:
    ratio = (F.log_softmax(z, 1)[torch.arange(N), Y] - OLD).exp()
    return -torch.minimum(ratio * A, ratio.clamp(0.8, 1.2) * A)


def focal(z: Tensor) -> Tensor:
    return (1 - F.softmax(z, 1).gather(1, Y[:, None])[:, 0]) ** 2 * each(z)


def gauss(z: Tensor, reduction: str) -> Tensor:
    return F.gaussian_nll_loss(z[:, :2], HOT[:, :2], F.softplus(z[:, 2:]), reduction=reduction)


def divergence(z: Tensor, reduction: str, log: bool = False) -> Tensor:
    return F.kl_div(F.log_softmax(z, 1), SOFT.log() if log else SOFT, reduction=reduction, log_target=log)


def masked(z: Tensor) -> Tensor:
    return each(z) * (Y != 1) / (Y != 1).sum()


LOSSES: dict[str, tuple[LossOf, LossOf]] = {  # the loss, and its parts
    "cross entropy": (lambda z: F.cross_entropy(z, Y), lambda z: each(z) / N),
    "sum": (lambda z: F.cross_entropy(z, Y, reduction="sum"), each),
    "weights and ignored": (
        lambda z: F.cross_entropy(z, Y, W.to(z), ignore_index=1),
        lambda z: each(z, weight=W, ignore_index=1) / (W[Y] * (Y != 1)).sum(),
    ),
    "smoothing": (lambda z: F.cross_entropy(z, Y, label_smoothing=0.1), lambda z: each(z, label_smoothing=0.1) / N),
    "smoothing and weights": (lambda z: F.cross_entropy(z, Y, W.to(z), label_smoothing=0.1), smoothed),
    "soft targets": (lambda z: F.cross_entropy(z, SOFT), lambda z: F.cross_entropy(z, SOFT, reduction="none") / N),
    "none, mean, accumulation": (lambda z: each(z).mean() / 4, lambda z: each(z) / N / 4),
    "scaled": (lambda z: F.cross_entropy(z, Y) * torch.tensor(1024.0), lambda z: each(z) * 1024 / N),
    "masked mean": (lambda z: (each(z) * (Y != 1)).sum() / (Y != 1).sum(), masked),
    "chosen by a mask": (lambda z: each(z)[Y != 1].mean(), masked),
    "by hand, gather": (lambda z: -F.log_softmax(z, 1).gather(1, Y[:, None]).mean(), lambda z: each(z) / N),
    "by hand, index": (lambda z: -F.log_softmax(z, 1)[torch.arange(N), Y].mean(), lambda z: each(z) / N),
    "by hand, logsumexp": (
        lambda z: (z.logsumexp(1) - z.gather(1, Y[:, None]).squeeze(1)).mean(),
        lambda z: each(z) / N,
    ),
    "squares": (lambda z: F.mse_loss(z, HOT), lambda z: (z - HOT).pow(2).mean(1) / N),
    "squares by hand": (lambda z: ((z - HOT) ** 2).mean(), lambda z: (z - HOT).pow(2).mean(1) / N),
    "three times the sum": (
        lambda z: 3 * F.mse_loss(z, HOT, reduction="sum") / N,
        lambda z: 3 * (z - HOT).pow(2).sum(1) / N,
    ),
    "absolute": (lambda z: F.l1_loss(z, HOT), lambda z: (z - HOT).abs().mean(1) / N),
    "huber": (lambda z: F.huber_loss(z, HOT), lambda z: F.huber_loss(z, HOT, reduction="none").mean(1) / N),
    "smooth l1": (
        lambda z: F.smooth_l1_loss(z, HOT, beta=0.3),
        lambda z: F.smooth_l1_loss(z, HOT, beta=0.3, reduction="none").mean(1) / N,
    ),
    "binary": (
        lambda z: F.binary_cross_entropy_with_logits(z, HOT),
        lambda z: F.binary_cross_entropy_with_logits(z, HOT, reduction="none").mean(1) / N,
    ),
    "binary, weights": (
        lambda z: F.binary_cross_entropy_with_logits(z, HOT, pos_weight=W),
        lambda z: F.binary_cross_entropy_with_logits(z, HOT, pos_weight=W, reduction="none").mean(1) / N,
    ),
    "binary of probabilities": (
        lambda z: F.binary_cross_entropy(z.sigmoid(), HOT.to(z)),
        lambda z: F.binary_cross_entropy(z.sigmoid(), HOT, reduction="none").mean(1) / N,
    ),
    "divergence": (lambda z: divergence(z, "batchmean"), lambda z: divergence(z, "none").sum(1) / N),
    "divergence of logs": (lambda z: divergence(z, "sum", True), lambda z: divergence(z, "none", True).sum(1)),
    "poisson": (
        lambda z: F.poisson_nll_loss(z, HOT),
        lambda z: F.poisson_nll_loss(z, HOT, reduction="none").mean(1) / N,
    ),
    "focal": (lambda z: focal(z).mean(), lambda z: focal(z) / N),
    "two terms": (
        lambda z: F.cross_entropy(z, Y) + 0.1 * F.mse_loss(z, HOT),
        lambda z: each(z) / N + 0.1 * (z - HOT).pow(2).mean(1) / N,
    ),
    "entropy": (
        lambda z: F.cross_entropy(z, Y) + 0.1 * entropy(F.log_softmax(z, 1)).mean(),
        lambda z: each(z) / N + 0.1 * entropy(F.log_softmax(z, 1)) / N,
    ),
    "entropy of the same": (
        lambda z: (lambda lp: F.nll_loss(lp, Y) + 0.1 * entropy(lp).mean())(F.log_softmax(z, 1)),
        lambda z: each(z) / N + 0.1 * entropy(F.log_softmax(z, 1)) / N,
    ),
    "clipped ratio": (lambda z: clipped(z).mean(), lambda z: clipped(z) / N),
    "gaussian": (lambda z: gauss(z, "mean"), lambda z: gauss(z, "none").mean(1) / N),
    "critic": (lambda z: -z[:, 0].mean() + 2 * z[:, 1].mean(), lambda z: (2 * z[:, 1] - z[:, 0]) / N),
    "margin": (lambda z: (1 - z * HOT).clamp_min(0).mean(), lambda z: (1 - z * HOT).clamp_min(0).mean(1) / N),
}
REFUSED: dict[str, tuple[LossOf, str]] = {
    "root": (lambda z: F.mse_loss(z, HOT).sqrt(), "Sqrt"),
    "overlap": (lambda z: 1 - (z.sigmoid() * HOT).sum() / (z.sigmoid() + HOT).sum(), "Div"),
    "a constant": (lambda z: (2 - 2 * F.cosine_similarity(z, HOT)).mean(), "rsub adds a constant"),
    "contrast": (lambda z: F.cross_entropy(z @ z.mT, torch.arange(N)), "told apart"),
    "weights of the batch": (lambda z: (z[:, 0].softmax(0) * each(z)).sum(), "told apart"),
    "unknown": (lambda z: z.cosh().mean(), "Cosh"),
}


@dataclass
class Net:
    """A net and what it put out."""

    model: nn.Module
    output: Tensor
    layout: Layout

    def losses(self, loss: Tensor, seed: Tensor | None = None) -> Tensor:
        """Individual losses of a number computed from the output."""
        out = self.output
        source = Source.placed(Result.of(out), self.layout)
        graph, count = Graph([loss.grad_fn]), self.layout.samples

        def place(result: Result) -> Layout | None:
            at = result.node, result.output
            placement = ask(graph, [at], count, [source], 0)[at].placement
            return None if placement is None else placement.layout(result.shape, count)

        return individual_losses([loss], [seed], dict(self.model.named_parameters()), count, [source], place)


def net(inputs: Tensor = X, layout: Layout | None = None) -> Net:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, C)).to(inputs.dtype)
    return Net(model, model(inputs), layout or Layout(N, C))


@pytest.mark.parametrize("name", LOSSES)
def test_parts_are_the_losses_of_single_samples(name: str) -> None:
    loss_of, parts_of = LOSSES[name]
    given = net()
    torch.testing.assert_close(given.losses(loss_of(given.output)), parts_of(given.output).detach())


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "chosen by a mask"])
def test_single_precision(name: str) -> None:
    loss_of, parts_of = LOSSES[name]
    given = net(X.float())
    expected = parts_of(net().output).detach()
    found = given.losses(loss_of(given.output))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_is_undefined_with_the_operation(name: str) -> None:
    loss_of, reason = REFUSED[name]
    given = net()
    with pytest.raises(Undefined, match=reason):
        given.losses(loss_of(given.output))


@pytest.mark.parametrize("way", ["flattened", "time first", "time first, flattened", "images", "ignored"])
def test_several_positions(way: str) -> None:
    first = "first" in way
    inputs = torch.randn(*((T, N) if first else (N, T)), 6, generator=torch.Generator().manual_seed(1)).double()
    targets = torch.randint(C, inputs.shape[:2], generator=torch.Generator().manual_seed(2))
    given = net(inputs, Layout(N, C if first else T * C))
    z, ignored = given.output, 2 if way == "ignored" else -100
    if way == "images":
        loss = F.cross_entropy(z.movedim(2, 1), targets)
    elif way == "time first":
        loss = -(F.log_softmax(z, 2) * F.one_hot(targets, C)).sum(2).mean()
    else:
        loss = F.cross_entropy(z.reshape(-1, C), targets.reshape(-1), ignore_index=ignored)
    every = F.cross_entropy(z.movedim(2, 1), targets, reduction="none", ignore_index=ignored).detach()
    counted = (targets != ignored).sum()
    torch.testing.assert_close(given.losses(loss), every.sum(0 if first else 1) / counted)


def test_a_penalty_is_no_part_of_any_sample() -> None:
    given = net()
    first = given.model[0].weight  # type: ignore[index]
    penalty = 0.1 * sum(p.square().sum() for p in given.model.parameters()) + 0.2 * first.abs().sum() + first.norm()
    found = given.losses(F.cross_entropy(given.output, Y) + penalty)
    torch.testing.assert_close(found, each(given.output).detach() / N)


def test_a_term_of_data_that_samples_do_not_show_is_no_penalty() -> None:
    """The same weights are applied to other data: what it adds cannot be told, and is not left out."""
    given = net()
    first, other = given.model[0].weight, torch.randn(5, 9, dtype=torch.float64)  # type: ignore[index]
    for term in (
        (other @ first).square().mean(),
        first[torch.tensor([1, 1, 2])].square().sum(),
        (first - 1).abs().sum(),
    ):
        with pytest.raises(Undefined):
            given.losses(F.cross_entropy(given.output, Y) + term)


def test_the_gradient_that_is_handed_to_backward_counts() -> None:
    given = net()
    found = given.losses(F.cross_entropy(given.output, Y), torch.tensor(3.0, dtype=torch.float64))
    torch.testing.assert_close(found, 3 * each(given.output).detach() / N)
    found = given.losses(each(given.output), A)
    torch.testing.assert_close(found, A * each(given.output).detach())


def test_hooks_of_the_user_are_not_called() -> None:
    given, called = net(), list[int]()
    given.output.register_hook(lambda grad: called.append(1))
    loss = each(given.output)
    loss.register_hook(lambda grad: called.append(1))
    given.losses(loss.mean())
    assert not called


def test_samples_can_be_looked_for_in_what_the_loss_is_made_of() -> None:
    given = net()
    (found,) = results([F.cross_entropy(given.output, Y)], [None])
    assert found.shape == (N, C)


class Own(nn.Module):
    """A model that knows its loss; what it puts out besides is up to ``given``."""

    def __init__(self, loss_of: Callable[[Tensor, Tensor], Tensor], given: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net, self.loss_of, self.given = nn.Linear(6, C), loss_of, given

    def forward(self, x: Tensor, y: Tensor) -> Any:
        z = self.net(x)
        loss = self.loss_of(z, y)
        if self.given == "an object":
            return Output(z, loss)
        return {"the loss alone": loss, "both": (z, loss), "logits": z}[self.given]


class Output:
    """A plain object."""

    def __init__(self, logits: Tensor, loss: Tensor) -> None:
        self.logits, self.loss = logits, loss


FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross entropy": lambda z, y: F.cross_entropy(z, y),
    "none": lambda z, y: F.cross_entropy(z, y, reduction="none").mean(),
    "by hand": lambda z, y: (z.logsumexp(1) - z.gather(1, y[:, None])[:, 0]).mean(),
    "smoothing": lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1),
    "squares": lambda z, y: F.mse_loss(z, F.one_hot(y, C).to(z)),
    "binary": lambda z, y: F.binary_cross_entropy_with_logits(z, F.one_hot(y, C).to(z)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("given", ["logits", "both", "the loss alone", "an object"])
@pytest.mark.parametrize("micro", [1, 2])
def test_alpha_wherever_the_loss_is_computed(name: str, given: str, micro: int) -> None:
    """In the loop or inside the model, whatever it returns, in one pass or accumulated in several, scaled or not."""
    alphas = []
    for kind, scale in (("logits", 1.0), (given, 64.0)):
        model = Own(FUNCTIONS[name], kind)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, enabled=scale != 1)
        with watch(model, optimizer, quantities=["Alpha", "NormTest"], every=1, run=False) as pit:
            draw = torch.Generator().manual_seed(1)
            for _ in range(3):
                x, y = torch.randn(8, 6, generator=draw), torch.randint(C, (8,), generator=draw)
                for part, target in zip(x.chunk(micro), y.chunk(micro), strict=True):
                    out = model(part, target)
                    found = {"logits": lambda o: FUNCTIONS[name](o, target), "both": lambda o: o[1]}  # noqa: B023
                    loss = found[kind](out) if kind in found else getattr(out, "loss", out)
                    scaler.scale(loss / micro).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        assert not pit.history.reasons().get("NormTest")
        alphas.append([record.value for record in pit.history.series("Alpha")][:2])
    assert None not in alphas[0]
    assert alphas[1] == pytest.approx(alphas[0], rel=1e-3)
