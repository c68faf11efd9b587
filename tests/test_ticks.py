"""The loss of every step: what the loop itself would write down, tracked or not."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.small import BACKWARD, IN, draw, net, sgd, watch
from torch import Tensor, nn

from cockpit.core.source import Series
from cockpit.engine.autograd import tap
from cockpit.plots.summary import summary
from cockpit.store import StoredRun
from cockpit.tracking.ticks import TOGETHER, Ticks
from cockpit.tracking.watched import Watch

RARELY = 10**6
Loop = Callable[[nn.Module, Any, int], list[float]]


def plain(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    losses = []
    for x, y in draw(*[8] * steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def accumulating(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    losses = []
    for x, y in draw(*[8] * steps):
        optimizer.zero_grad()
        parts = [F.cross_entropy(model(x[half]), y[half]) / 2 for half in (slice(0, 3), slice(3, 8))]
        for part in parts:
            part.backward()
        optimizer.step()
        losses.append(sum(part.item() for part in parts))
    return losses


def thrown_away(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    """Of two passes the gradients of the first are cleared: only the second is trained on."""
    losses = []
    for x, y in draw(*[8] * steps):
        for scale in (3.0, 1.0):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) * scale
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def cleared_in_place(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    losses = []
    for x, y in draw(*[8] * steps):
        for scale in (3.0, 1.0):
            optimizer.zero_grad(set_to_none=False)
            loss = F.cross_entropy(model(x), y) * scale
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def sharp(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    """The gradient is taken where the loss is higher; the step begins, and its loss is, where it was."""
    parameters, losses = list(model.parameters()), []
    for x, y in draw(*[8] * steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        away = [0.1 * p.grad for p in parameters]
        with torch.no_grad():
            torch._foreach_add_(parameters, away)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            torch._foreach_sub_(parameters, away)
        optimizer.step()
        losses.append(loss.item())
    return losses


def several_roots(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    losses = []
    for x, y in draw(*[8] * steps):
        optimizer.zero_grad()
        out = model(x)
        one, other = F.cross_entropy(out, y), out.square().mean()
        torch.autograd.backward([one, other], [None, torch.tensor(0.5, dtype=out.dtype)])
        optimizer.step()
        losses.append(one.item() + 0.5 * other.item())
    return losses


def scaled(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    losses = []
    for x, y in draw(*[8] * steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def another_model(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    """A second model is trained between the steps of the watched one."""
    other, losses = net(5), []
    others = sgd(other)
    for x, y in draw(*[8] * steps):
        for one, its in ((other, others), (model, optimizer)):
            its.zero_grad()
            loss = F.cross_entropy(one(x), y)
            loss.backward()
            its.step()
        losses.append(loss.item())
    return losses


def unnumbered(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    """Every third step is taken without a backward pass, and every fourth on something that is no number."""
    losses = []
    for step, (x, y) in enumerate(draw(*[8] * steps)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if step % 3 == 2:
            parameters = list(model.parameters())
            for p, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                p.grad = grad
        elif step % 4 == 3:
            out = model(x)
            out.backward(torch.ones_like(out))
        else:
            loss.backward()
        optimizer.step()
        losses.append(np.nan if step % 3 == 2 or step % 4 == 3 else loss.item())
    return losses


LOOPS = [plain, accumulating, thrown_away, cleared_in_place, sharp, several_roots, scaled, another_model, unnumbered]


def trained(loop: Loop, steps: int = 3 * TOGETHER + 5, **options: Any) -> tuple[Watch, list[float]]:
    model = net()
    optimizer = sgd(model)
    with watch(model, optimizer, **{"quantities": ["Loss", "GradNorm"], "every": RARELY, **options}) as pit:
        losses = loop(model, optimizer, steps)
    return pit, losses


def curve(source: Any) -> Series:
    found: Series = source.scalar("Loss")
    return found


def agrees(series: Series, losses: list[float], first: int = 0) -> None:
    there = ~np.isnan(losses)
    assert series.steps.tolist() == (first + np.flatnonzero(there)).tolist()
    np.testing.assert_allclose(series.values, np.array(losses)[there], rtol=1e-12)


@pytest.mark.parametrize("loop", LOOPS)
def test_every_loss_is_the_loops(loop: Loop) -> None:
    pit, losses = trained(loop, step=1)  # so that no step is tracked
    assert not pit.history.steps()
    agrees(curve(pit.source()), losses, 1)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("every", [1, 3])
def test_tracked_steps_say_the_same(loop: Loop, every: int) -> None:
    pit, losses = trained(loop, 30, every=every)
    seen, tracked = curve(pit.source()), {record.step: record.value for record in pit.history.series("Loss")}
    there = [step for step in tracked if not np.isnan(losses[step])]
    assert there
    for step in there:
        assert tracked[step] == pytest.approx(losses[step], rel=1e-12)
        assert seen.values[seen.steps == step] == tracked[step]
    assert set(np.flatnonzero(~np.isnan(losses))) <= set(seen.steps.tolist())


@pytest.mark.parametrize("options", [{}, {"line_search_fn": "strong_wolfe"}])
def test_a_closure_counts_once(options: dict[str, Any]) -> None:
    model, losses = net(), []
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, **options)
    with watch(model, optimizer, quantities=["Loss"], every=3) as pit:
        for x, y in draw(*[8] * 10):
            first: list[float] = []

            def closure(x: Tensor = x, y: Tensor = y, first: list[float] = first) -> Tensor:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                first.append(loss.item())
                return loss

            optimizer.step(closure)
            assert len(first) > 1
            losses.append(first[0])
    agrees(curve(pit.source()), losses)


def test_two_optimizers_take_one_step_together() -> None:
    model, losses = net(), []
    halves = [sgd(model[0]), sgd(model[2])]
    with watch(model, halves, quantities=["Loss"], every=RARELY, step=1) as pit:
        for x, y in draw(*[8] * 40):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            for half in halves:
                half.step()
                half.zero_grad()
            losses.append(loss.item())
    agrees(curve(pit.source()), losses, 1)


def test_two_models_in_one_loop_keep_apart() -> None:
    models = [net(0), net(1)]
    optimizers = [sgd(model) for model in models]
    pits = [
        watch(model, optimizer, quantities=["Loss"], every=RARELY, step=1)
        for model, optimizer in zip(models, optimizers, strict=True)
    ]
    losses: list[list[float]] = [[], []]
    for x, y in draw(*[8] * 40):
        for model, optimizer, found in zip(models, optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    for pit, found in zip(pits, losses, strict=True):
        agrees(curve(pit.source()), found, 1)
        pit.close()


def test_two_threads_keep_apart() -> None:
    results: dict[int, tuple[Watch, list[float]]] = {}

    def train(seed: int) -> None:
        results[seed] = trained(plain if seed else accumulating, 200, step=1)

    threads = [threading.Thread(target=train, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for pit, losses in results.values():
        agrees(curve(pit.source()), losses, 1)


@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_the_run_holds_every_loss(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_STORE", backend)
    pit, losses = trained(plain, run=tmp_path / "run", every=50)
    run = StoredRun(tmp_path / "run")
    agrees(curve(run), losses)
    assert run.damaged is None
    assert run.last_step == run.step == len(losses) - 1
    assert run.sample("Loss", 1000) == losses
    assert run.sample("Loss", 2) == [losses[0], losses[-1]]
    assert run.output().keys() == pit.get_output().keys()
    numbers = [record.value for record in run.records() if record.name == "Loss"]
    assert numbers == losses
    assert run.table()["Loss"].tolist() == losses


def test_a_million_losses_stay_small_and_quick(tmp_path: Path) -> None:
    from cockpit.core.course import Course
    from cockpit.core.kinds import Kind
    from cockpit.core.record import Record
    from cockpit.store import create

    values = np.random.default_rng(0).normal(size=10**6)
    writer = create(tmp_path / "run")
    for first in range(0, len(values), 200):
        part = values[first : first + 200]
        writer.append([Record(first + len(part) - 1, "Loss", Kind.SCALAR, Course(part))])
    writer.close()
    assert sum(file.stat().st_size for file in (tmp_path / "run").iterdir()) < 12e6
    begin = time.process_time()
    found = curve(StoredRun(tmp_path / "run"))
    assert time.process_time() - begin < 2
    assert (found.values == values).all()


def test_a_continued_run_shows_the_later_losses(tmp_path: Path) -> None:
    earlier = trained(plain, 70, run=tmp_path / "run")[1]
    later = trained(accumulating, 40, run=tmp_path / "run", step=50)[1]
    agrees(curve(StoredRun(tmp_path / "run")), [*earlier[:50], *later])
    few = trained(thrown_away, 5, run=tmp_path / "run", step=60)[1]
    agrees(curve(StoredRun(tmp_path / "run")), [*earlier[:50], *later[:10], *few, *later[15:]])


@pytest.mark.parametrize("stored", [False, True])
def test_a_nan_is_seen_at_its_step(tmp_path: Path, stored: bool) -> None:
    model, last = net(), 150
    optimizer = sgd(model)
    with watch(model, optimizer, quantities=["Loss", "GradNorm"], every=100, run=tmp_path / "run") as pit:
        for step, (x, y) in enumerate(draw(*[8] * last)):
            optimizer.zero_grad()
            (F.cross_entropy(model(x), y) * (float("nan") if step >= 117 else 1)).backward()
            optimizer.step()
    source = StoredRun(tmp_path / "run") if stored else pit.source()
    facts = json.loads(json.dumps(summary(source)))
    assert facts["quantities"]["Loss"]["not_finite_since"] == 117
    assert facts["loss"] is None
    assert facts["step"] == last - 1


def test_the_default_budget_shows_every_loss(tmp_path: Path) -> None:
    pit, losses = trained(plain, 400, every=None, grace=0.0, run=tmp_path / "run", quantities="economy")
    assert len(pit.history.steps()) < 300
    agrees(curve(StoredRun(tmp_path / "run")), losses)


@pytest.mark.parametrize("quantities", [["GradNorm"], [("Loss", 5)]])
def test_only_where_the_loss_is_asked_for_without_a_schedule(quantities: list[Any]) -> None:
    from cockpit.quantities import Loss

    chosen = [Loss(lambda step: step % 5 == 0) if isinstance(one, tuple) else one for one in quantities]
    pit, _ = trained(plain, 20, quantities=chosen, every=5)
    assert set(curve(pit.source()).steps.tolist()) <= {0, 5, 10, 15}
    assert torch.autograd.backward is BACKWARD


def test_only_the_tap_and_the_optimizers_hooks_outlive_a_step() -> None:
    model = net()
    optimizer = sgd(model)
    pit = watch(model, optimizer, nn.CrossEntropyLoss(), every=RARELY)
    plain(model, optimizer, 2)
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    assert not tap._listeners
    assert torch.autograd.backward is not BACKWARD
    pit.close()
    assert torch.autograd.backward is BACKWARD
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_step_pre_hooks


def test_a_watch_that_is_dropped_leaves_no_tap() -> None:
    model = net()
    optimizer = sgd(model)
    pit = watch(model, optimizer, every=RARELY)
    plain(model, optimizer, 2)
    del pit, model, optimizer
    gc.collect()
    assert torch.autograd.backward is BACKWARD


def test_a_fault_of_ours_costs_one_loss(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []
    slot = Ticks._slot

    def fails(self: Ticks, device: torch.device) -> Tensor:
        calls.append(1)
        if len(calls) == 5:
            raise RuntimeError("no slot")
        return slot(self, device)

    monkeypatch.setattr(Ticks, "_slot", fails)
    pit, losses = trained(plain, 12, step=1)
    losses[4] = np.nan
    agrees(curve(pit.source()), losses, 1)
    assert caplog.text.count("no slot") == 1


def test_losses_of_any_precision_and_shape() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        model, losses = nn.Linear(IN, 3).to(dtype), []
        optimizer = sgd(model)
        with watch(model, optimizer, quantities=["Loss"], every=RARELY, step=1) as pit:
            for x, _ in draw(*[8] * 5):
                loss = model(x.to(dtype)).square().mean().reshape(1)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        agrees(curve(pit.source()), losses, 1)


@pytest.mark.parametrize("given", [False, True])
def test_the_tap_reads_no_number(given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU each of these would wait for the device."""

    def refused(self: Tensor, *_: Any) -> Any:
        raise AssertionError("a number was read")

    model, losses = net(), []
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=1024.0)
    with watch(model, optimizer, quantities=["Loss"], every=RARELY, step=1, scaler=scaler if given else None) as pit:
        for x, y in draw(*[8] * 10):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            scaled = scaler.scale(loss)
            with monkeypatch.context() as patch:
                for name in ("item", "__float__", "__int__", "__bool__", "tolist", "numpy", "cpu"):
                    patch.setattr(Tensor, name, refused)
                scaled.backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
    agrees(curve(pit.source()), losses, 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("scaling", [False, True])
def test_on_a_gpu_nothing_waits(scaling: bool) -> None:
    model = net().float().cuda()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, enabled=scaling)
    batches = [(x.float().cuda(), y.cuda()) for x, y in draw(*[8] * 100)]
    losses: list[Tensor] = []
    with watch(model, optimizer, quantities=["Loss"], every=RARELY, step=1) as pit:
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            if not scaling:
                torch.cuda.set_sync_debug_mode("error")
            scaler.scale(loss).backward()
            torch.cuda.set_sync_debug_mode("default")
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach())
    agrees(curve(pit.source()), [loss.item() for loss in losses], 1)


PROGRAM = """
import sys, time
import torch, cockpit
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pit = cockpit.watch(model, optimizer, quantities=["Loss"], every=1000, run=sys.argv[1])
for step in range(50):
    optimizer.zero_grad()
    model(torch.randn(4, 3)).square().mean().backward()
    optimizer.step()
print("trained", flush=True)
if sys.argv[2] == "waits":
    time.sleep(100)
"""


@pytest.mark.parametrize("end", ["exits", "waits"])
def test_the_last_losses_are_written_however_it_ends(tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), end]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "trained\n"
        if end == "waits":
            time.sleep(1.5)  # evaluation, say: no further step asks for anything
            process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert curve(StoredRun(tmp_path / "run")).steps.tolist() == list(range(50))
