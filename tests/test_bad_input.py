"""Bad input gets an error that names the fact, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.small import draw, hooks, net, sgd, step_hooks
from torch import nn

import cockpit
from cockpit.core.errors import CockpitError
from cockpit.quantities import GradHist1d, GradHist2d, GradNorm, HessTrace, Loss, TICDiag, TICTrace
from cockpit.tracking.checks import check_torch
from cockpit.utils.schedules import linear, logarithmic

BACKWARD = torch.autograd.backward


def refused(call: Callable[[], Any], *words: str) -> None:
    """Assert that the call is refused in these words."""
    with pytest.raises(CockpitError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {str(caught.value)!r}"


def refused_option(words: tuple[str, ...], **options: Any) -> None:
    """Assert that ``watch`` refuses an option, and that nothing is attached then."""
    model = net()
    optimizer, loss_fn = sgd(model), nn.CrossEntropyLoss()
    refused(lambda: cockpit.watch(model, optimizer, **{"loss_fn": loss_fn, "run": False, **options}).close(), *words)
    assert hooks(model, loss_fn) == step_hooks(optimizer) == 0
    assert torch.autograd.backward is BACKWARD


# ---- model and optimizer


def test_not_a_module() -> None:
    model = net()
    refused(lambda: cockpit.watch(model.parameters(), sgd(model)).close(), "generator", "torch.nn.Module")
    refused(lambda: cockpit.watch(None, sgd(model)).close(), "NoneType", "torch.nn.Module")


def test_a_model_without_parameters() -> None:
    refused(lambda: cockpit.watch(nn.ReLU(), sgd(net())).close(), "ReLU", "no parameters")


def test_a_model_that_is_frozen() -> None:
    model = net()
    optimizer = sgd(model)
    model.requires_grad_(False)
    refused(lambda: cockpit.watch(model, optimizer).close(), "Sequential", "frozen")


def test_an_optimizer_of_another_model() -> None:
    refused(lambda: cockpit.watch(net(), sgd(net())).close(), "SGD", "none of the 6", "Sequential", "parameters()")


@pytest.mark.parametrize("optimizer", [None, "SGD", torch.optim.SGD, [None], []])
def test_not_an_optimizer(optimizer: Any) -> None:
    refused(lambda: cockpit.watch(net(), optimizer).close(), "optimizer", "torch.optim.Optimizer")


def test_model_and_optimizer_in_the_wrong_order() -> None:
    model = net()
    refused(lambda: cockpit.watch(sgd(model), model).close(), "SGD", "torch.nn.Module")


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_a_sparse_embedding_is_left_out(kind: type[nn.Module]) -> None:
    model, loss_fn = nn.Sequential(kind(10, 3, sparse=True), nn.Flatten(), nn.LazyLinear(2)), nn.CrossEntropyLoss()
    words, y = torch.randint(10, (4, 5)), torch.randint(2, (4,))
    model(words)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with cockpit.watch(model, optimizer, loss_fn, every=1, run=False) as pit:
        for _ in range(2):
            optimizer.zero_grad()
            loss_fn(model(words), y).backward()
            optimizer.step()
        assert "0.weight" in pit.explain()
        assert "sparse=False" in pit.explain()
    first = pit.get_output()[0]
    assert first["NormTest"] > 0
    assert first["GradNorm"]["0.weight"] > 0
    assert first["UpdateSize"]["0.weight"] > 0


def test_a_sparse_embedding_that_is_frozen_is_fine() -> None:
    model = nn.Sequential(nn.Embedding(10, 3, sparse=True), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    cockpit.watch(model, sgd(model), run=False).close()


# ---- quantities


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("econmy", "economy"),
        ("Full", "full"),
        ("buisness", "business"),
        ("GradNrom", "GradNorm"),
        (["GradNrom"], "GradNorm"),
        (["Loss", "gradhist1d"], "GradHist1d"),
        (["HessMaxEv"], "HessMaxEV"),
        (["TIC"], "TICDiag"),
    ],
)
def test_an_unknown_quantity_or_preset(given: Any, nearest: str) -> None:
    name = given if isinstance(given, str) else given[-1]
    refused_option(("unknown", repr(name), f"did you mean {nearest!r}" if name != "TIC" else nearest), quantities=given)


def test_a_name_like_no_other() -> None:
    refused_option(("unknown", "'xyzzy'", "GradNorm", "Alpha"), quantities=["xyzzy"])
    refused_option(("unknown", "'xyzzy'", "economy", "business", "full"), quantities="xyzzy")


def test_an_unknown_preset_of_the_paper() -> None:
    refused(lambda: cockpit.configuration("ful"), "'ful'", "did you mean 'full'")


@pytest.mark.parametrize("given", [["Loss", "Loss"], ["Loss", Loss], [Loss, Loss()]])
def test_a_quantity_twice(given: Any) -> None:
    refused_option(("Loss", "2 times"), quantities=given)


@pytest.mark.parametrize("given", [[3], [None], [nn.ReLU], 5, None])
def test_not_a_quantity(given: Any) -> None:
    refused_option(("quantit",), quantities=given)


@pytest.mark.parametrize("quantity", [HessTrace, TICDiag, TICTrace])
def test_an_unknown_curvature(quantity: Any) -> None:
    refused(lambda: quantity(curvature="gnn"), "curvature", "'gnn'", "did you mean 'ggn'", "diag_h")


@pytest.mark.parametrize("samples", [0, -1, 1.5, "two"])
def test_a_bad_number_of_curvature_samples(samples: Any) -> None:
    refused(lambda: HessTrace(curvature="ggn_mc", samples=samples), "samples", repr(samples))


@pytest.mark.parametrize("bins", [0, -3, 1.5, "many", None])
def test_bad_bins(bins: Any) -> None:
    refused(lambda: GradHist1d(bins=bins), "bins", str(bins))


@pytest.mark.parametrize(
    "limits", [(2, -2), (1, 1), (0,), (0, 1, 2), ("a", "b"), (float("nan"), 1.0), (0.0, float("inf")), 3, None]
)
def test_bad_limits(limits: Any) -> None:
    refused(lambda: GradHist1d(range=limits), "bins")


@pytest.mark.parametrize(
    "options",
    [
        {"bins": 40},
        {"bins": (40,)},
        {"bins": (40, 0)},
        {"range": (-1, 1)},
        {"range": ((-1, 1), (2, -2))},
        {"bins": (1, 2, 3)},
    ],
)
def test_bad_bins_on_two_axes(options: dict[str, Any]) -> None:
    refused(lambda: GradHist2d(**options), "bins")


@pytest.mark.parametrize("schedule", [5, "always", [1, 2]])
def test_a_schedule_that_is_none(schedule: Any) -> None:
    refused(lambda: GradNorm(track_schedule=schedule), "track_schedule", repr(schedule), "step -> bool")


# ---- when


@pytest.mark.parametrize("budget", [0, 0.0, -0.1, 1.5, float("nan"), float("inf"), "5%", None, True])
def test_a_budget_outside_its_range(budget: Any) -> None:
    refused_option(("budget", repr(budget), "(0, 1]"), budget=budget)


@pytest.mark.parametrize("grace", [-1, -0.5, float("nan"), "10s", None, True])
def test_a_bad_grace(grace: Any) -> None:
    refused_option(("grace", repr(grace), "0 or more"), grace=grace)


@pytest.mark.parametrize("every", [0, -1, "x", 1.5, True])
def test_a_bad_interval(every: Any) -> None:
    refused_option((repr(every), "steps"), every=every)


@pytest.mark.parametrize("interval", [0, -2, 1.5, "x", True])
def test_a_bad_linear_schedule(interval: Any) -> None:
    refused(lambda: linear(interval), "interval", repr(interval))


@pytest.mark.parametrize(("start", "end", "steps"), [(2, 1, 10), (0, 1, 0)])
def test_a_bad_logarithmic_schedule(start: int, end: int, steps: int) -> None:
    refused(lambda: logarithmic(start, end, steps=steps), "start <= end")


# ---- the rest of watch


@pytest.mark.parametrize("batch_size", [0, -4, 1.5, "4", True])
def test_a_bad_batch_size(batch_size: Any) -> None:
    refused_option(("batch_size", repr(batch_size), "positive whole number"), batch_size=batch_size)


@pytest.mark.parametrize("axis", [-1, 0.5, "batch", None, True])
def test_a_bad_batch_axis(axis: Any) -> None:
    refused_option(("batch_axis", repr(axis), "0 or more"), batch_axis=axis)


@pytest.mark.parametrize("step", [-1, 0.5, "first", None, True, 2**63])
def test_a_bad_first_step(step: Any) -> None:
    refused_option(("step", repr(step), "0 or more"), step=step)


@pytest.mark.parametrize("loss_fn", ["cross_entropy", 3, torch.ones(())])
def test_a_loss_that_cannot_be_called(loss_fn: Any) -> None:
    refused_option(("loss_fn", "pit.loss"), loss_fn=loss_fn)


@pytest.mark.parametrize("losses", [torch.ones(3), "losses"])
def test_individual_losses_that_cannot_be_called(losses: Any) -> None:
    refused_option(("losses", "call"), losses=losses)


@pytest.mark.parametrize("scaler", [1024.0, "scaler"])
def test_a_scaler_that_is_none(scaler: Any) -> None:
    refused_option(("scaler", "GradScaler"), scaler=scaler)


@pytest.mark.parametrize("samples", [0, 1, 2.5, True, "all"])
def test_samples_that_are_no_number(samples: Any) -> None:
    refused_option(("samples", "2 or more"), samples=samples)


@pytest.mark.parametrize("memory", [0, -0.1, 1.5, True, "5%", float("nan")])
def test_a_share_of_memory_that_is_none(memory: Any) -> None:
    refused_option(("memory", "0.05"), memory=memory)


# ---- the paper's face


def paper(quantities: list[Any] | None = None) -> tuple[nn.Module, cockpit.Cockpit]:
    model = net()
    return model, cockpit.Cockpit(model.parameters(), quantities or cockpit.configuration("economy"))


def test_no_parameters() -> None:
    refused(lambda: cockpit.Cockpit(nn.ReLU().parameters()), "no parameters")


def test_frozen_parameters() -> None:
    model = net().requires_grad_(False)
    refused(lambda: cockpit.Cockpit(model.parameters()), "requires_grad=False")


def test_not_a_quantity_of_the_paper() -> None:
    _, pit = paper()
    refused(lambda: pit.add("GradNorm"), "'GradNorm'", "instance")  # type: ignore[arg-type]


def test_a_loss_that_is_not_a_scalar() -> None:
    model, pit = paper()
    x, y = draw(4)[0]
    losses = nn.functional.cross_entropy(model(x), y, reduction="none")
    info = {"batch_size": 4, "individual_losses": losses, "loss": losses}
    refused(lambda: pit(0, info=info), "(4,)", "scalar", "mean", "individual_losses")


@pytest.mark.parametrize("size", [0, -1, "4", 2.5, True])
def test_a_bad_batch_size_of_the_paper(size: Any) -> None:
    _, pit = paper()
    refused(lambda: pit(0, info={"batch_size": size}), "batch_size", repr(size), "number of samples")


def test_a_batch_size_that_cannot_be_known() -> None:
    _, pit = paper()
    refused(lambda: pit(0, info={}), "batch size cannot be known", '"batch_size"')


def test_a_batch_size_is_not_needed_for_what_has_no_samples() -> None:
    model, pit = paper([GradNorm(), Loss()])
    x, y = draw(4)[0]
    loss = nn.functional.cross_entropy(model(x), y)
    with pit(0, info={"loss": loss}):
        loss.backward()
    assert pit.get_output()[0]["GradNorm"]


def test_extend_wants_a_module() -> None:
    refused(partial(cockpit.extend, "net"), "str", "torch.nn.Module")


def test_an_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="wtach"):
        cockpit.wtach  # noqa: B018


def test_every_refusal_is_a_value_error() -> None:
    assert issubclass(CockpitError, ValueError)


@pytest.mark.parametrize(
    ("version", "fine"), [("2.10.1", False), ("1.13.0+cu117", False), ("2.11.0a0", True), ("3.0", True)]
)
def test_a_pytorch_that_is_too_old_is_named(version: str, fine: bool) -> None:
    if fine:
        return check_torch(version)
    with pytest.raises(CockpitError, match=re.escape(f"PyTorch {version} is installed; cockpit needs 2.11")):
        check_torch(version)
