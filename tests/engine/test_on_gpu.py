"""On a CUDA device: numbers as on the CPU, nothing that waits for the device, everything in one CUDA graph."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cockpit
from cockpit.engine import form_statistics as statistics
from cockpit.engine import kernels
from cockpit.engine.form_statistics import Direction, Statistics, Wanted
from cockpit.engine.statistics.bins import Bins
from cockpit.layers._rule import Use, rule_for
from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Indexed, Summed, scale, widened
from cockpit.layers.layout import Layout

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

N = 9
BINS = (Bins(100, -2.0, 2.0), Bins(7, -0.5, 1.0))
PAIR = (Bins(40, -1.0, 1.0), Bins(50, -2.0, 2.0))
WANTED = Wanted(sq_norm=True, sum_sq=True, abs_max=True, dot_mean=True, hist1d=BINS, hist2d=(PAIR,))


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


FORMS: dict[str, Callable[[], AnyForm]] = {
    "outer": lambda: Factored((30, 40), draw(N, 1, 1, 30), draw(N, 1, 1, 40)),
    "narrow": lambda: Factored((3, 40), draw(N, 1, 1, 3), draw(N, 1, 1, 40)),
    "sequence": lambda: Factored((30, 40), draw(N, 1, 6, 30), draw(N, 1, 6, 40)),
    "grouped": lambda: Factored((12, 5), draw(N, 3, 6, 4), draw(N, 3, 6, 5)),
    "convolved": lambda: Convolved((8, 4, 3, 3), draw(N, 1, 8, 9, 9), draw(N, 1, 8, 5, 5), 2, (2, 2), (1, 1), (1, 1)),
    "pointwise": lambda: Convolved((4, 20, 1), draw(N, 1, 20, 9), draw(N, 1, 4, 9), 1, (1,), (0,), (1,)),
    "frames": lambda: Convolved((4, 20, 3), draw(N, 2, 20, 9), draw(N, 2, 4, 7), 1, (1,), (0,), (1,)),
    "dense": lambda: Dense(draw(N, 33)),
    "indexed": lambda: Indexed((6, 2), N, torch.arange(N).repeat(3), torch.arange(27) % 5, draw(27, 2)),
    "looked_up_too": lambda: Summed(
        (Dense(draw(N, 6, 2)), Indexed((6, 2), N, torch.arange(N).repeat(3), torch.arange(27) % 5, draw(27, 2)))
    ),
    "summed": lambda: Summed((Dense(draw(N, 30, 40)), Factored((30, 40), draw(N, 1, 2, 30), draw(N, 1, 2, 40)))),
}


def changed(form: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(form, Summed):
        return Summed(tuple(changed(part, change) for part in form.parts))
    named = {field.name: getattr(form, field.name) for field in fields(form)}
    return replace(form, **{name: change(value) for name, value in named.items() if isinstance(value, Tensor)})


def doubled(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


@contextmanager
def never_waiting() -> Iterator[None]:
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.fixture(params=[True, False], ids=["kernels", "operations"], autouse=True)
def _with_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    if request.param and not kernels.usable(torch.zeros(1, device="cuda")):
        pytest.skip("no kernels here")
    if not request.param:
        monkeypatch.setattr(kernels, "usable", lambda tensor: False)
    yield
    torch.backends.cudnn.allow_tf32 = allowed


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("factor", [0.01, 1.0, 3.7])
def test_as_on_the_cpu(name: str, factor: float) -> None:
    form = scale(FORMS[name](), factor)
    here = changed(form, Tensor.cuda)
    theta, v = draw(*form.shape), draw(*form.shape, 1)[..., 0]
    other = changed(scale(FORMS[name](), 0.5), Tensor.cuda)
    directions = {"v": Direction(v.cuda()), "mean": Direction(None, other, 2.0)}
    arguments = (here, theta.cuda(), WANTED, directions)
    statistics.compute(*arguments)  # kernels are built, and bins brought to the device, at the first call
    statistics.project(here, directions["v"])
    with never_waiting():
        found = statistics.compute(*arguments)
        projected = statistics.project(here, directions["v"])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = statistics.compute(*arguments)
    graph.replay()
    for each in (found, captured):
        check(each, form, theta, v, factor)
        check_counts(each, here, theta)
    torch.testing.assert_close(projected.cpu(), found.dots["v"].cpu(), rtol=1e-4, atol=1e-5)
    if found.formed is not None:
        again = statistics.project_formed(found.formed, getattr(here, "factor", 1.0), v.cuda())
        torch.testing.assert_close(again, found.dots["v"], rtol=1e-4, atol=1e-5)


def check(found: Statistics, form: AnyForm, theta: Tensor, v: Tensor, factor: float) -> None:
    g = changed(form, doubled).form(0, N).reshape(N, -1)
    mean = g.mean(0) / factor
    expected = {
        "sq_norm": (found.sq_norm, g.square().sum(1)),
        "sum_sq": (found.sum_sq, g.square().sum(0)),
        "abs_max": (found.abs_max, g.abs().max()),
        "dot_mean": (found.dot_mean, g @ g.mean(0)),
        "v": (found.dots["v"], g @ v.double().reshape(-1)),
        "mean": (found.dots["mean"], g @ mean),
    }
    for name, (one, other) in expected.items():
        assert one is not None
        scale_of = float(other.abs().max())
        torch.testing.assert_close(
            one.double().cpu().reshape(other.shape),
            other,
            rtol=1e-4,
            atol=1e-5 * scale_of,
            msg=lambda m, n=name: f"{n}: {m}",
        )


def check_counts(found: Statistics, here: AnyForm, theta: Tensor) -> None:
    """Counts are those of the numbers that the device formed, whatever their rounding."""
    if isinstance(here, Factored | Convolved) and not (isinstance(here, Factored) and here.outer):
        g = replace(here, factor=1.0).form(0, N) * here.factor
    else:
        g = here.form(0, N)
    values = g.reshape(N, -1).double().cpu().numpy()
    for bins in BINS:
        expected = np.bincount(np.searchsorted(bins.edges[1:-1], values.ravel(), side="right"), minlength=bins.count)
        np.testing.assert_array_equal(found.hist1d[bins].cpu(), expected)
    one, other = PAIR
    first = np.searchsorted(one.edges[1:-1], values, side="right")
    second = np.searchsorted(other.edges[1:-1], theta.double().numpy().reshape(1, -1), side="right")
    expected = np.bincount((first * other.count + second).ravel(), minlength=one.count * other.count)
    np.testing.assert_array_equal(found.hist2d[PAIR].cpu().reshape(-1), expected)


@pytest.mark.parametrize("name", ["outer", "sequence", "convolved", "dense"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(name: str, dtype: torch.dtype) -> None:
    form = changed(FORMS[name](), lambda t: t.to(dtype))
    here = scale(changed(form, Tensor.cuda), 3.7)
    theta = draw(*form.shape).to(dtype)
    found = statistics.compute(here, theta.cuda(), WANTED, {"v": theta.cuda()})
    g = 3.7 * changed(widened(form), doubled).form(0, N).reshape(N, -1)
    assert found.sq_norm is not None
    torch.testing.assert_close(found.sq_norm.double().cpu(), g.square().sum(1), rtol=1e-4, atol=0)
    torch.testing.assert_close(found.dots["v"].double().cpu(), g @ theta.double().reshape(-1), rtol=1e-4, atol=1e-3)
    assert int(found.hist1d[BINS[0]].sum()) == g.numel()
    assert int(found.hist2d[PAIR].sum()) == g.numel()


@pytest.mark.parametrize("preset", ["economy", "business", "full"])
def test_familiar_steps_run_on_the_thread_of_the_training_and_change_nothing(preset: str) -> None:
    def trained(watched: bool) -> tuple[list[Tensor], list[int]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5)).cuda()
        optimizer, loss_fn, threads = torch.optim.Adam(model.parameters()), nn.CrossEntropyLoss(), list[int]()
        pit = cockpit.watch(model, optimizer, loss_fn, quantities=preset, every=1, run=False) if watched else None
        x, y = torch.randn(40, 16, 20, device="cuda"), torch.randint(5, (40, 16), device="cuda")
        for inputs, labels in zip(x, y, strict=True):
            optimizer.zero_grad()
            hidden = model[:2](inputs)
            hidden.register_hook(lambda grad: threads.append(threading.get_ident()))
            loss_fn(model[2](hidden), labels).backward()
            optimizer.step()
        if pit is not None:
            pit.close()
            values = [record.value for record in pit.history.series("NormTest")]
            assert len(values) == 40
            assert None not in values
        return [p.detach() for p in model.parameters()], threads

    plain, elsewhere = trained(watched=False)
    seen, here = trained(watched=True)
    assert threading.get_ident() not in elsewhere
    assert here[-1] == threading.get_ident()
    assert all(torch.equal(one, other) for one, other in zip(plain, seen, strict=True))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("size", [3, 20])  # few positions, and enough for one pass over them
def test_scales_of_batch_norms(size: int, training: bool) -> None:
    layer = nn.BatchNorm2d(5).cuda().train(training)
    layer(draw(6, 5, size, size).cuda() + 7)  # running statistics
    x, grad = (2 * draw(6, 5, size, size) + 40).cuda(), draw(5, 6, size, size).transpose(0, 1).contiguous().cuda()
    node: Any = layer(x).grad_fn
    rule = rule_for(node.name())
    assert rule is not None
    form = rule(Use(node, 1, (5,), (grad,), Layout(6, 5 * size * size)))
    assert isinstance(form, Dense)
    exact = x.double()
    if training:
        mean, var = exact.mean((0, 2, 3), keepdim=True), exact.var((0, 2, 3), correction=0, keepdim=True)
    else:
        mean, var = (part.double().view(1, -1, 1, 1) for part in (layer.running_mean, layer.running_var))
    expected = ((exact - mean) * torch.rsqrt(var + layer.eps) * grad.double()).sum((2, 3))
    torch.testing.assert_close(form.value.double(), expected, rtol=1e-4, atol=1e-3)


def test_counts_exceed_32_bits() -> None:
    row, col = torch.full((64, 8192), 1e-3, device="cuda"), torch.full((64, 16384), -1e-3, device="cuda")
    if kernels.usable(row):
        counts = kernels.outer_1d(row, col, 1.0, BINS[0]).tolist()
        assert counts[BINS[0].near_zero[1]] == sum(counts) == 64 * 8192 * 16384
