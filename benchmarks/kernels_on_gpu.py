"""Check the kernels on a CUDA device against float64 counting, replay them in CUDA graphs, and time them.

    PYTHONPATH=src python benchmarks/kernels_on_gpu.py

Takes less than a minute. Whatever fails is printed and the rest goes on; exit code 1 if anything was wrong.
"""

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())  # kernels are built here and now: that is timed too

import numpy as np
import torch
from torch import Tensor

from cockpit.engine import kernels
from cockpit.engine.kernels import histograms, scanning
from cockpit.engine.statistics.bins import Bins

DEVICE = torch.device("cuda", 0)
START = time.perf_counter()
CHECKS_END = 32.0  # seconds after which no further case is checked
COMMON, PARAMETER = Bins(100, -2.0, 2.0), Bins(50, -1.0, 1.0)
BINS = [COMMON, Bins(7, -0.3, 0.7), Bins(1, -1.0, 1.0), Bins(2, -1.0, 1.0), Bins(10, 0.5, 1.5)]
BINS += [Bins(2, -1.0, 1.0 + 1e-13), Bins(5, -1e-44, 1e-44), Bins(3, -1e300, 1e300), Bins(10, -1.5, -0.5)]
BINS += [Bins(1000, -0.01, 0.01), Bins(1000, 1000.0, 1000.001)]
SCALES = (1e-4, 0.02, 1.0)
LINEAR = [(128, o, i) for o, i in [(512, 1152), (256, 512), (10, 256), (1000, 784), (500, 1000), (100, 500), (10, 100)]]
FORMED = [(128, 4800), (128, 55296), (128, 110592), (8, 2359296)]
failures: list[str] = []


def main() -> int:
    torch.manual_seed(0)
    began = time.perf_counter()
    if not kernels.usable(torch.zeros(1, device=DEVICE)):
        print(f"not usable: {kernels.obstacle(DEVICE)}")
        return 1
    name, triton = torch.cuda.get_device_name(DEVICE), sys.modules["triton"].__version__
    print(f"{name}, torch {torch.__version__}, Triton {triton}")
    print(f"usable: first answer {time.perf_counter() - began:.2f} s, then {answer_time():.2f} us\n")
    for part in (first_calls, check_all, replay_all, time_all, try_programs):
        attempt(part.__name__, part)
    print(f"\n{time.perf_counter() - START:.0f} s; " + (f"{len(failures)} FAILED" if failures else "all right"))
    for failure in failures[:20]:
        print(f"  FAILED {failure}")
    return 1 if failures else 0


def attempt(name: str, work: Callable[[], object]) -> None:
    try:
        work()
        torch.cuda.synchronize()
    except Exception as error:
        failures.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        traceback.print_exc(limit=4)


def answer_time() -> float:  # microseconds
    x, began = torch.zeros(1, device=DEVICE), time.perf_counter()
    for _ in range(1000):
        kernels.usable(x)
    return (time.perf_counter() - began) * 1e3


# --- Inputs and references ------------------------------------------------------------------------------------------


def odd_numbers(bins: Bins) -> Tensor:
    with np.errstate(all="ignore"):
        edges = bins.edges.astype(np.float32)
        around = [edges, np.nextafter(edges, np.float32(-np.inf)), np.nextafter(edges, np.float32(np.inf))]
    odd = [0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1e-15, -1e-15, 3.0, -3.0, 3e38, -3e38]
    found = torch.from_numpy(np.concatenate(around))
    return torch.cat([found[found.isfinite()], torch.tensor(odd)]).to(DEVICE)


def numbers(*shape: int, scale: float = 1.0, odd: Bins | None = None) -> Tensor:
    x = torch.randn(*shape, device=DEVICE) * scale
    if odd is not None:
        special = odd_numbers(odd)
        x = torch.where(torch.rand_like(x) < 0.1, special[torch.randint(len(special), shape, device=DEVICE)], x)
    return x


def place(x: Tensor, bins: Bins) -> Tensor:
    inner = torch.from_numpy(bins.edges[1:-1].copy()).to(DEVICE)
    return torch.bucketize(x.double(), inner, right=True)


def reference_1d(x: Tensor, bins: Bins) -> Tensor:
    return torch.bincount(place(x, bins).flatten(), minlength=bins.count)


def reference_2d(x: Tensor, theta: Tensor, bins: Bins, parameter: Bins) -> Tensor:
    joint = place(x, bins) * parameter.count + place(theta, parameter)
    return torch.bincount(joint.flatten(), minlength=bins.count * parameter.count).view(bins.count, parameter.count)


def outer(row: Tensor, col: Tensor, factor: float) -> Tensor:
    return (row.float() * factor)[:, :, None] * col.float()[:, None, :]


# --- 1. Every kernel against float64 --------------------------------------------------------------------------------


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    """Likely trouble first, kernels with few variants before those that must be built anew."""
    for shape in [(1, 1, 1), (3, 7, 9), (5, 130, 514), (37, 129, 1025), (128, 10, 256), (64, 300, 700)]:
        for scale in (1e-4, 0.02, 1.0):
            yield f"outer {shape} scale {scale}", lambda s=shape, a=scale: check_outer(s, a, COMMON)
    for shape in [(1, 1), (2, 8195), (9, 37), (128, 4800), (33, 20001), (8, 300000), (300, 10)]:
        for scale in (1e-4, 0.02, 1.0):
            yield f"scan {shape} scale {scale}", lambda s=shape, a=scale: check_scan(s, a, COMMON, 2)
    for bins in BINS:
        yield f"outer on the edges of {bins}", lambda b=bins: check_outer((17, 21, 132), 0.05, b, odd=b)
        yield f"scan on the edges of {bins}", lambda b=bins: check_scan((17, 5000), 0.05, b, 0, odd=b)
    yield "non-finite", check_non_finite
    for many in (1, 3, 4):
        yield f"scan with {many} vectors", lambda k=many: check_scan((19, 3000), 0.1, COMMON, k)
    for dtype in (torch.bfloat16, torch.float16):
        yield f"outer {dtype}", lambda d=dtype: check_outer((9, 33, 68), 0.3, COMMON, dtype=d)
        yield f"scan {dtype}", lambda d=dtype: check_scan((9, 3000), 0.3, COMMON, 2, dtype=d)


def check_all() -> None:
    done = 0
    for name, work in cases():
        if time.perf_counter() - START > CHECKS_END:
            print(f"out of time before: {name}")
            break
        attempt(name, work)
        done += 1
    print(f"checked {done} cases against float64 ({time.perf_counter() - START:.0f} s)\n")


def equal(name: str, got: Tensor, wanted: Tensor) -> None:
    if not torch.equal(got, wanted):
        off, where = int((got - wanted).abs().sum()), (got != wanted).nonzero()[:4].tolist()
        raise AssertionError(f"{name}: counts off by {off} of {int(wanted.sum())}, first at {where}")


def check_outer(
    shape: tuple[int, int, int], scale: float, bins: Bins, odd: Bins | None = None, dtype: torch.dtype = torch.float32
) -> None:
    samples, outputs, inputs = shape
    row = numbers(samples, outputs, scale=scale).to(dtype)
    col = numbers(samples, inputs, odd=odd).to(dtype)
    row[:, ::7] = 0.0
    row[:, 1::5] = 1.0 if odd is not None else 1e-30
    theta = numbers(outputs, inputs, scale=0.01 if samples % 2 else 0.5, odd=odd)
    x = outer(row, col, 1.5)
    with guarded():
        equal("outer_1d", kernels.outer_1d(row, col, 1.5, bins), reference_1d(x, bins))
        joint = kernels.outer_2d(row, col, 1.5, theta, bins, PARAMETER)
    equal("outer_2d", joint, reference_2d(x, theta, bins, PARAMETER))


def check_scan(
    shape: tuple[int, int],
    scale: float,
    bins: Bins,
    many: int,
    odd: Bins | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    g = numbers(*shape, scale=scale, odd=odd).to(dtype)
    vectors = numbers(many, shape[1]) if many else None
    theta = numbers(shape[1], scale=0.01 if shape[0] % 2 else 0.5, odd=odd)
    x = g.float() * 1.5
    with guarded():
        square, dots, counts = kernels.scan(g, vectors, bins, 1.5)
        joint = kernels.scan_2d(g, 1.5, theta, bins, PARAMETER)
    assert counts is not None
    equal("scan", counts, reference_1d(x, bins))
    equal("scan_2d", joint, reference_2d(x, theta, bins, PARAMETER))
    if odd is None:
        check_sums(square, dots, x, vectors)
        again = kernels.scan(g, vectors, bins, 1.5)
        assert torch.equal(again[0], square), "squares differ from one call to the next"
        assert again[1] is None or torch.equal(again[1], dots), "dots differ from one call to the next"


def check_sums(square: Tensor, dots: Tensor | None, x: Tensor, vectors: Tensor | None) -> None:
    x, exact = x.double(), x.double().square().sum(1)
    error = float(((square.double() - exact).abs() / (exact + 1e-30)).max())
    assert error < 2e-6, f"squares: relative error {error:.1e}"
    if vectors is not None and dots is not None:
        norms = vectors.double().norm(dim=1)[:, None] * x.norm(dim=1) + 1e-30
        worst = float(((dots.double() - vectors.double() @ x.mT).abs() / norms).max())
        assert worst < 2e-6, f"dots: error {worst:.1e} of the product of the norms"


def check_non_finite() -> None:
    for odd in (float("nan"), float("inf"), -float("inf")):
        g, theta = numbers(17, 5000, scale=0.05), numbers(5000)
        g.view(-1)[::997] = odd
        theta[::97] = odd
        finite, spare = reference_1d(g[g.isfinite()], COMMON), int((~g.isfinite()).sum())
        ones = torch.ones(17, 3, device=DEVICE)
        with guarded():
            found = kernels.scan(g, None, COMMON)[2]
            joints = [
                kernels.scan_2d(g, 1.0, theta, COMMON, PARAMETER),
                kernels.outer_2d(ones[:, :1], g, 1.0, theta[None], COMMON, PARAMETER),
            ]
            thrice = kernels.outer_1d(ones, g, 1.0, COMMON)
        assert found is not None
        for name, counts, times in (("scan", found, 1), ("outer_1d", thrice, 3)):
            extra = counts - times * finite
            assert int(extra.min()) >= 0, f"{name}: finite numbers beside {odd} are lost"
            assert int(extra.sum()) == times * spare, f"{name}: {odd} is not counted once"
        assert all(int(joint.sum()) == g.numel() for joint in joints), f"joint counts with {odd}"


@contextmanager
def guarded() -> Iterator[None]:
    """While it lasts, counts lie between numbers that must not change."""
    mark, buffers = 1234567, []

    def fenced(allocate: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def within(*arguments: object) -> Tensor:
            inner = allocate(*arguments)
            buffer = torch.full((3, *inner.shape), mark, dtype=inner.dtype, device=inner.device)
            if inner.dtype == torch.int64:
                buffer[1] = 0  # the kernel sets the others to zero itself
            buffers.append(buffer)
            return buffer[1]

        return within

    kept = scanning.rows_of_counts, histograms.rows_of_counts, histograms.joint_counts
    scanning.rows_of_counts = histograms.rows_of_counts = fenced(kept[0])
    histograms.joint_counts = fenced(kept[2])
    try:
        yield
    finally:
        scanning.rows_of_counts, histograms.rows_of_counts, histograms.joint_counts = kept
    assert all(bool((buffer[::2] == mark).all()) for buffer in buffers), "something was written out of bounds"


# --- 2. In CUDA graphs ----------------------------------------------------------------------------------------------


def captured(work: Callable[[], object]) -> tuple[torch.cuda.CUDAGraph, object]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result


def replay_all() -> None:
    row, col, theta = numbers(32, 40, scale=0.1), numbers(32, 72), numbers(40, 72)
    g, vectors, flat = numbers(32, 5000, scale=0.1), numbers(2, 5000), numbers(5000)
    made = {
        "outer_1d": captured(lambda: kernels.outer_1d(row, col, 2.0, COMMON)),
        "outer_2d": captured(lambda: kernels.outer_2d(row, col, 2.0, theta, COMMON, PARAMETER)),
        "scan": captured(lambda: kernels.scan(g, vectors, COMMON, 2.0)),
        "scan_2d": captured(lambda: kernels.scan_2d(g, 2.0, flat, COMMON, PARAMETER)),
    }
    for round_ in range(3):
        for tensor in (row, col, theta, g, vectors, flat):
            tensor.normal_(std=10.0 ** (round_ - 2))
        x = outer(row, col, 2.0)
        wanted = {
            "outer_1d": reference_1d(x, COMMON),
            "outer_2d": reference_2d(x, theta, COMMON, PARAMETER),
            "scan": reference_1d(g * 2.0, COMMON),
            "scan_2d": reference_2d(g * 2.0, flat, COMMON, PARAMETER),
        }
        for name, (graph, result) in made.items():
            graph.replay()
            counts = result[2] if isinstance(result, tuple) else result
            assert isinstance(counts, Tensor)
            attempt(f"replay {round_} of {name}", lambda c=counts, w=wanted[name]: equal("replayed", c, w))
        sums = made["scan"][1]
        assert isinstance(sums, tuple)
        attempt(f"sums of replay {round_}", lambda s=sums: check_sums(s[0], s[1], g * 2.0, vectors))
    print("captured and replayed\n")


# --- 3. and 4. Times ------------------------------------------------------------------------------------------------


def first_calls() -> None:
    """How long building takes, for the variants that a run of 3c3d needs."""
    row, col, theta = numbers(128, 512), numbers(128, 1152), numbers(512, 1152)
    g, vectors, bias = numbers(128, 4800), numbers(2, 4800), numbers(128, 10)
    calls: dict[str, Callable[[], object]] = {
        "outer_1d": lambda: kernels.outer_1d(row, col, 1.0, COMMON),
        "outer_2d": lambda: kernels.outer_2d(row, col, 1.0, theta, COMMON, PARAMETER),
        "scan, 2 vectors": lambda: kernels.scan(g, vectors, COMMON),
        "scan, 2 vectors, no histogram": lambda: kernels.scan(g, vectors, None),
        "scan, size not a multiple of 4": lambda: kernels.scan(bias, vectors[:, :10], COMMON),
        "scan_2d": lambda: kernels.scan_2d(g, 1.0, vectors[0], COMMON, PARAMETER),
    }
    for name, call in calls.items():
        attempt(f"first call of {name}", partial(first_call, name, call))
    print()


def first_call(name: str, call: Callable[[], object]) -> None:
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        spent.append(time.perf_counter() - began)
    print(f"first call {name:32s} {spent[0]:6.2f} s, third {spent[2] * 1e6:6.0f} us")


def microseconds(work: Callable[[], object], rounds: int = 15, graph: bool = True) -> float:
    """Median time on the device with cold caches; replayed from a graph where it can be."""
    flush = torch.empty(2**26, dtype=torch.int32, device=DEVICE)
    run = captured(work)[0].replay if graph else work
    run()
    times = []
    for _ in range(rounds):
        flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


def time_all() -> None:
    from_, to = (torch.empty(2**29, dtype=torch.uint8, device=DEVICE) for _ in range(2))
    speed = 2 * to.numel() / microseconds(lambda: to.copy_(from_)) / 1e6
    print(f"copy: {speed:.2f} TB/s; next to nothing: {microseconds(lambda: to[:4].zero_()):.1f} us")
    print(f"{'us, cold caches; scale of g:':34s}" + "".join(f"{scale:9g}" for scale in SCALES) + "   plain torch, 1e-4")
    for shape in FORMED:
        attempt(f"time scan {shape}", lambda s=shape: time_formed(*s))
    for shape in LINEAR:
        attempt(f"time outer {shape}", lambda s=shape: time_outer(*s))


def line(name: str, work: Callable[[float], object], plain: Callable[[], object], size: int = 0) -> None:
    times = [microseconds(lambda s=scale: work(s)) for scale in SCALES]
    speed = f"   {size / times[0] / 1e6:.2f} TB/s" if size else ""
    shown = "".join(f"{t:9.1f}" for t in times)
    print(f"{name:34s}{shown}   {microseconds(plain, 5, graph=False):9.1f}{speed}", flush=True)


def plain_joint(x: Tensor, of_theta: Tensor) -> Tensor:
    inner = torch.linspace(-2, 2, 101, device=DEVICE)[1:-1]
    return torch.bincount((torch.bucketize(x, inner, right=True) * 50 + of_theta).flatten(), minlength=5000)


def time_formed(samples: int, size: int) -> None:
    g = {scale: numbers(samples, size, scale=scale) for scale in SCALES}
    vectors, theta, x = numbers(2, size), numbers(size, scale=0.02), g[1e-4]
    of_theta, title, bytes_ = place(theta, PARAMETER), f"[{samples}, {size}]", x.numel() * 4

    def plain(histogram: bool) -> object:
        return x.square().sum(1), vectors @ x.mT, torch.histc(x, 100, -2, 2) if histogram else None

    line(f"scan {title}", lambda s: kernels.scan(g[s], vectors, COMMON), lambda: plain(True), bytes_)
    line(f"scan, no histogram {title}", lambda s: kernels.scan(g[s], vectors, None), lambda: plain(False), bytes_)
    joint = partial(kernels.scan_2d, factor=1.0, theta=theta, gradient=COMMON, parameter=PARAMETER)
    line(f"scan_2d {title}", lambda s: joint(g[s]), lambda: plain_joint(x, of_theta), bytes_)


def time_outer(samples: int, outputs: int, inputs: int) -> None:
    rows = {scale: numbers(samples, outputs, scale=scale) for scale in SCALES}
    col, theta, row = numbers(samples, inputs), numbers(outputs, inputs, scale=0.02), rows[1e-4]
    of_theta, title = place(theta, PARAMETER), f"{samples} x {inputs}x{outputs}"
    one = lambda s: kernels.outer_1d(rows[s], col, 1.0, COMMON)  # noqa: E731
    line(f"outer_1d {title}", one, lambda: torch.histc(outer(row, col, 1.0), 100, -2, 2))
    two = lambda s: kernels.outer_2d(rows[s], col, 1.0, theta, COMMON, PARAMETER)  # noqa: E731
    line(f"outer_2d {title}", two, lambda: plain_joint(outer(row, col, 1.0), of_theta))


def try_programs() -> None:
    """Whether another number of programs for each multiprocessor would be better."""
    kept = scanning.PROGRAMS
    for shape in FORMED[1:]:
        work = partial(kernels.scan, numbers(*shape, scale=1e-4), numbers(2, shape[1]), COMMON)
        times = [f"{scanning.PROGRAMS}: {microseconds(work):.1f}" for scanning.PROGRAMS in (2, 3, 4, 6, 8, 12, 16)]
        print(f"scan {list(shape)}, us by programs for each multiprocessor: " + ", ".join(times))
    scanning.PROGRAMS = kept


if __name__ == "__main__":
    sys.exit(main())
