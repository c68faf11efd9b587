"""Watching a long run costs no memory but its records; a tracked step needs little more than a plain one."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.small import (
    draw,
    hooks,
    net,
    sgd,
    step_hooks,
    train,
    watch,
)
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from cockpit.engine.statistics._base import At
from cockpit.engine.statistics.dot import dot
from cockpit.engine.statistics.scan import scan
from cockpit.engine.statistics.sq_norm import SQ_NORM
from cockpit.engine.statistics.sum_sq import SUM_SQ
from cockpit.layers.forms import CHUNK, Convolved, Factored

MIB = 2**20


# ---- a long run


def tensors() -> int:
    gc.collect()
    return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())


def resident() -> int:
    """Bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def size(*roots: Any) -> int:
    """Bytes of everything that is reachable from here, classes and modules aside."""
    seen, pending, total = set(), list(roots), 0
    while pending:
        thing = pending.pop()
        if id(thing) in seen or isinstance(thing, type | type(os) | type(size)):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        pending += gc.get_referents(thing)
    return total


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_two_thousand_tracked_steps_leave_nothing_but_records() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(*[4] * 10)
    optimizer = sgd(model)
    counts, hooked, memory = {}, {}, {}
    with watch(model, optimizer, loss_fn, "economy") as pit:
        for step in range(2000):
            train(model, optimizer, loss_fn, [batches[step % 10]])
            if step + 1 in (100, 500, 2000):
                counts[step + 1], hooked[step + 1] = tensors(), (hooks(model, loss_fn), step_hooks(optimizer))
                memory[step + 1] = resident(), size(pit.history)
    assert len(pit.get_output()) == 2000
    assert hooked[100] == hooked[500] == hooked[2000]
    assert counts[100] >= counts[500] >= counts[2000]  # fewer where something of an earlier test is let go of
    grown, recorded = (after - before for before, after in zip(memory[500], memory[2000], strict=True))
    print(f"from step 500 to 2000: {grown / MIB:.1f} MiB more, {recorded / MIB:.1f} MiB of them records")
    assert grown < recorded + 5 * MIB
    assert recorded / 1500 < 16_000  # bytes a step


@pytest.mark.parametrize("quantities", ["business", "full"])
def test_second_order_leaves_no_tensors(quantities: str) -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(*[4] * 60)
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, quantities):
        train(model, optimizer, loss_fn, batches[:20])
        before = tensors()
        train(model, optimizer, loss_fn, batches[20:])
        assert tensors() == before


# ---- the graph


@contextmanager
def no_collection() -> Iterator[None]:
    """Whatever dies in here dies because nobody holds it, not because cycles are collected."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("quantities", ["economy", "business", "full"])
@pytest.mark.parametrize("every", [1, 2])
def test_no_graph_lives_longer_than_its_step(quantities: str, every: int) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer, dead, inputs_held = sgd(model), [], []
    with watch(model, optimizer, loss_fn, quantities, every=every), no_collection():
        for inputs, y in draw(4, 4, 4, 4):
            x = inputs.clone()  # saved by the first layer
            optimizer.zero_grad()
            out = model(x)
            loss = loss_fn(out, y)
            loss.backward()
            optimizer.step()
            held = [weakref.ref(thing) for thing in (out, loss)]
            inputs_held.append(weakref.ref(x))
            del x, out, loss
            dead.append([ref() is None for ref in held])
            # what a linear layer was given may be kept for one step: the direction of a step of gradient descent
            assert all(ref() is None for ref in inputs_held[:-1])
    assert dead == [[True] * 2] * 4
    assert all(ref() is None for ref in inputs_held)


def test_the_graph_is_let_go_before_the_optimizer_steps() -> None:
    """The moment when an optimizer's own buffers are made is the dearest of a step."""
    model, loss_fn, (x, y) = net(), nn.CrossEntropyLoss(), draw(4)[0]
    optimizer, dead = sgd(model), []
    with watch(model, optimizer, loss_fn), no_collection():
        out = model(x)
        loss = loss_fn(out, y)
        held = weakref.ref(out)
        loss.backward()
        del out, loss
        optimizer.register_step_pre_hook(lambda *_: dead.append(held() is None))
        optimizer.step()
    assert dead == [True]


def test_graphs_of_an_evaluation_are_let_go() -> None:
    """Validation without ``no_grad``: its graphs die when the user lets go of them, as without a watch."""
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 4, 4, 4)
    optimizer, dead = sgd(model), []
    with watch(model, optimizer, loss_fn), no_collection():
        train(model, optimizer, loss_fn, batches[:1])
        for x, y in batches[1:]:
            out = model(x)
            loss = loss_fn(out, y)
            held = weakref.ref(out), weakref.ref(loss)
            del out, loss
            dead.append([ref() is None for ref in held])
    assert dead == [[True, True]] * 3


def test_an_error_lets_go_of_the_graph() -> None:
    model, loss_fn, (x, y) = net(), nn.CrossEntropyLoss(), draw(4)[0]
    with no_collection():
        with watch(model, sgd(model), loss_fn):
            out = model(x)
            loss = loss_fn(out, y)
            held = weakref.ref(out), weakref.ref(loss)
            del out, loss
        assert [ref() for ref in held] == [None, None]


# ---- linear layers are never formed


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.operation = 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor) and value.untyped_storage().nbytes() // value.itemsize > self.elements:
                self.elements, self.operation = value.untyped_storage().nbytes() // value.itemsize, str(func)
        return result


def test_vectors_of_linear_layers_are_never_formed() -> None:
    N, O, I = 16, 24, 32  # noqa: E741
    form = Factored((O, I), torch.randn(N, 1, 1, O), torch.randn(N, 1, 1, I))
    theta, v = torch.randn(O, I), torch.randn(O, I)
    with Largest() as largest:
        found = scan(form, [SQ_NORM, SUM_SQ, dot("v")], At(theta, {"v": v}), 2**20)
    assert largest.elements < N * O * I, largest.operation
    g_n = form.form(0, N)
    torch.testing.assert_close(found[SQ_NORM], g_n.square().sum((1, 2)))
    torch.testing.assert_close(found[SUM_SQ], g_n.square().sum(0))
    torch.testing.assert_close(found[dot("v")], (g_n * v).sum((1, 2)))


def test_a_convolution_is_formed_in_chunks() -> None:
    N, C, O, K = 48, 128, 128, 3  # noqa: E741
    form = Convolved((O, C, K, K), torch.randn(N, 1, C, 4, 4), torch.randn(N, 1, O, 2, 2), 1, (1, 1), (0, 0), (1, 1))
    assert N * prod(form.shape) > 1.5 * CHUNK
    with Largest() as largest:
        at = At(torch.randn(form.shape), {"v": torch.randn(form.shape)})
        scan(form, [SQ_NORM, SUM_SQ, dot("v")], at, CHUNK)
    assert largest.elements <= CHUNK, largest.operation


def test_a_whole_step_of_a_wide_net_forms_nothing() -> None:
    """All quantities of norms, products and squares; the loop, the backward pass and the update included."""
    N, H = 32, 50
    model, loss_fn = (
        nn.Sequential(nn.Linear(40, H), nn.ReLU(), nn.Linear(H, H), nn.ReLU(), nn.Linear(H, 3)),
        nn.CrossEntropyLoss(),
    )
    optimizer = sgd(model)
    names = ["Alpha", "NormTest", "InnerTest", "OrthoTest", "CABS", "EarlyStopping", "MeanGSNR"]
    batches = [(torch.randn(N, 40), torch.randint(3, (N,))) for _ in range(3)]
    with watch(model, optimizer, loss_fn, names) as pit, Largest() as largest:
        train(model, optimizer, loss_fn, batches)
    assert all(value is not None for value in pit.get_output()[1].values())
    assert largest.elements < N * H * 40, largest.operation


# ---- the peak

PROGRAM = """
import resource, sys, torch
from torch import nn
import cockpit
from cockpit.tracking.attach import watch  # the same modules are loaded either way
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
    nn.Conv2d(64, 96, 3), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
    nn.Conv2d(96, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
    nn.Flatten(), nn.Linear(1152, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10),
)
optimizer, loss_fn = torch.optim.SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
pit = None
if sys.argv[1] == "watched":
    pit = watch(model, optimizer, loss_fn, quantities=["GradHist1d"], every=1, run=False)
x, y = torch.rand(128, 3, 32, 32), torch.randint(10, (128,))
for _ in range(3):
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
if pit is not None:
    counts = [row["GradHist1d"].counts.sum() for row in pit.get_output().values()]
    assert counts == [128 * sum(p.numel() for p in model.parameters())] * 3, counts
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(how: str) -> int:
    """Largest memory of a process that trains the net, in bytes."""
    # One arena, and pages given back at once: what is counted is what the steps need, not what the allocator keeps.
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=120, env=environment, check=True
    )
    return int(done.stdout) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes there")
def test_a_histogram_needs_little_more_than_the_step_itself() -> None:
    plain, watched = peak("plain"), peak("watched")
    print(f"peak of three steps: {plain / MIB:.0f} MiB plain, {watched / MIB:.0f} MiB with GradHist1d")
    assert watched < plain + 100 * MIB
