"""Compiled loops against the obvious way in double precision, for ordinary numbers and odd ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.engine import derived, native
from cockpit.engine.binning import Bins
from cockpit.engine.native import build

pytestmark = pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")

BINS = [Bins(100, -2.0, 2.0), Bins(1, -1.0, 1.0), Bins(7, -0.3, 0.5), Bins(3000, -1.0, 1.0), Bins(5, 0.1, 0.7)]


def numbers(shape: tuple[int, ...], kind: str) -> Tensor:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    if kind == "small":
        return drawn * 1e-4
    if kind == "sparse":
        return drawn.relu()
    if kind == "tiny":
        return drawn * 1e-22  # products round to zero
    if kind == "large":
        return drawn * 1e25  # products overflow
    if kind == "odd":
        flat = drawn.view(-1)
        flat[:: max(1, len(flat) // 5)] = float("nan")
        flat[1 :: max(1, len(flat) // 3)] = float("inf")
    return drawn


KINDS = ("usual", "small", "sparse", "tiny", "large", "odd", "edges")


def counted(values: Tensor, bins: Bins) -> list[int]:
    """Each number is looked up among the edges, in double precision; NaN goes last."""
    places = np.searchsorted(bins.edges[1:-1], values.double().reshape(-1).numpy(), side="right")
    return [int((places == k).sum()) for k in range(bins.count)]


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 15, 16, 77])
def test_histograms_of_outer_products_are_exact(bins: Bins, kind: str, columns: int) -> None:
    row, col = numbers((6, 5), kind), numbers((6, columns), kind)
    if kind == "edges":  # products that lie on edges, and zeros of both signs
        col = torch.tensor(bins.edges[1:-1] if bins.count > 1 else [0.0]).float().repeat(columns)[:columns].repeat(6, 1)
        row = torch.tensor([1.0, -1.0, 0.0, -0.0, 0.5]).repeat(6, 1)
    products = row[:, :, None] * col[:, None, :]
    assert native.outer_counts(row, col, bins).tolist() == counted(products, bins)
    strided = torch.stack([col, col], 1)[:, 0]  # rows apart in memory
    assert native.outer_counts(row, strided, bins).tolist() == counted(products, bins)


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("size", [1, 17, 4096, 4097, 9000])
def test_one_pass_over_formed_gradients(bins: Bins, kind: str, size: int) -> None:
    g, v, w = numbers((3, size), kind), numbers((size,), "usual"), numbers((size, 1), "small").view(-1)
    rows, squares = torch.empty(3, 3), torch.ones(size)
    counts, top = torch.zeros(bins.count, dtype=torch.int64), torch.zeros(())
    native.scan(g, [v, w], rows, squares, (bins, counts), top)
    assert counts.tolist() == counted(g, bins)
    exact = g.double()
    wanted = torch.stack([exact.square().sum(1), exact @ v.double(), exact @ w.double()])
    sizes = torch.stack([exact.square().sum(1), exact.abs() @ v.double().abs(), exact.abs() @ w.double().abs()])
    sound = wanted.abs() < 1e38
    torch.testing.assert_close(
        rows.double()[sound], wanted[sound], rtol=0, atol=float(4e-7 * sizes[sound].max()) if sound.any() else 0
    )
    assert bool(rows[~sound].isfinite().logical_not().all())
    if kind != "odd":
        assert float(top) == float(g.abs().max())
        torch.testing.assert_close(squares, 1 + g.square().sum(0), rtol=1e-6, atol=0)
    else:
        assert np.isnan(float(top)) or np.isinf(float(top))


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    g, bins = torch.randn(4, 300_000), Bins(50, -2.0, 2.0)
    col, row = torch.rand(64, 5000), torch.randn(64, 40)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(native, "_threads", lambda work, threads=threads: threads)
        rows, counts = torch.empty(2, 4), torch.zeros(50, dtype=torch.int64)
        native.scan(g, [g[0]], rows, None, (bins, counts))
        sums = native.vector_sums([g[0], g[1][:7]], [g[2], g[3][:7]])
        found.append((rows, counts, native.outer_counts(row, col, bins), sums))
    one, three = found
    assert torch.equal(one[1], three[1])
    assert torch.equal(one[2], three[2])
    torch.testing.assert_close(one[0], three[0])
    torch.testing.assert_close(one[3], three[3])


def test_vectors_of_many_sizes() -> None:
    vectors = [torch.randn(size) for size in (1, 5, 4096, 10_000)]
    others = [torch.randn_like(v) for v in vectors]
    squares = [float(v.double().square().sum()) for v in vectors]
    assert native.vector_sums(vectors).tolist() == pytest.approx(squares, rel=1e-6)
    apart = [float((v.double() - w.double()).square().sum()) for v, w in zip(vectors, others, strict=True)]
    assert native.vector_sums(vectors, others, apart=True).tolist() == pytest.approx(apart, rel=1e-6)


@pytest.mark.parametrize(("size", "count"), [(5, 1), (2048, 3), (2049, 4), (200_003, 8)])
@pytest.mark.parametrize("newest", [1, 2, 8])
def test_a_vector_is_made_orthogonal_to_rows(size: int, count: int, newest: int) -> None:
    newest = min(newest, count)
    rows = torch.linalg.qr(numbers((size, count), "plain").double())[0].mT.float().contiguous()
    vector, exact = numbers((size,), "plain"), rows.double()
    vector -= rows.mT @ (rows @ vector)
    vector += torch.arange(1.0, newest + 1) @ rows[-newest:]
    parts = exact @ vector.double()
    left = vector.double() - parts @ exact
    found = native.orthogonalise(rows, vector, newest)
    torch.testing.assert_close(found[:-1], parts, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[-1], left.norm(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(vector.double(), left, rtol=1e-5, atol=1e-5)
    assert float((exact @ vector.double()).abs().max()) < 1e-6 * (1 + float(found[-1]))


def test_a_vector_is_made_orthogonal_to_its_neighbours() -> None:
    rows = torch.linalg.qr(numbers((3000, 6), "plain").double())[0].mT.float().contiguous()
    vector = numbers((3000,), "plain")
    expected = vector.double() - (rows[-2:].double() @ vector.double()) @ rows[-2:].double()
    parts = rows.double() @ vector.double()
    parts[:-2] = 0
    found = native.orthogonalise(rows, vector, 2, near=True)
    torch.testing.assert_close(found[:-1], parts, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[-1], expected.norm(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(vector.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("samples", "rows", "columns"), [(1, 1, 1), (3, 5, 2), (16, 8, 9), (17, 130, 1), (31, 257, 16), (128, 784, 10)]
)
def test_products_of_inner_products_of_all_pairs(samples: int, rows: int, columns: int) -> None:
    row, col = numbers((samples, rows + 3), "plain")[:, :rows], numbers((columns, samples), "plain").mT
    each = (row.double() @ row.double().mT) * (col.double() @ col.double().mT)
    sums, norms = native.pair_products(row, col, 0.25)
    scale = float(each.abs().sum(1).max())
    torch.testing.assert_close(sums.double(), 0.25 * each.sum(1), rtol=0, atol=1e-6 * scale)
    torch.testing.assert_close(norms.double(), each.diagonal(), rtol=2e-6, atol=0)
    again = native.pair_products(row, col, 0.25)
    assert torch.equal(sums, again[0])
    assert torch.equal(norms, again[1])


@pytest.mark.parametrize(
    ("samples", "others", "rows", "columns"),
    [(1, 1, 1, 1), (3, 2, 5, 2), (16, 33, 8, 9), (17, 1, 130, 1), (31, 16, 257, 16), (128, 100, 784, 300)],
)
def test_products_of_inner_products_of_two_batches(samples: int, others: int, rows: int, columns: int) -> None:
    row, col = numbers((samples, rows + 3), "plain")[:, :rows], numbers((columns, samples), "plain").mT
    other_row, other_col = 1 + numbers((others, rows), "plain"), numbers((others, columns), "plain")
    each = (row.double() @ other_row.double().mT) * (col.double() @ other_col.double().mT)
    scale = float(each.abs().sum(1).max())
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found = native.cross_products((row, col), (other_row, other_col), 0.25)
            torch.testing.assert_close(found.double(), 0.25 * each.sum(1), rtol=0, atol=1e-6 * scale)
            assert torch.equal(found, native.cross_products((row, col), (other_row, other_col), 0.25))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("size", "count", "kept"), [(5, 1, 1), (512, 3, 3), (513, 4, 2), (200_003, 8, 4)])
def test_rows_are_mixed_in_their_own_place(size: int, count: int, kept: int) -> None:
    rows, mix = numbers((count, size), "plain"), numbers((count, kept), "plain").mT
    expected, rest = mix.double() @ rows.double(), rows[kept:].clone()
    native.mix_rows(rows, mix)
    torch.testing.assert_close(rows[:kept].double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(rows[kept:], rest)


def test_moments_of_weighted_rows() -> None:
    rows, weights = torch.randn(3, 8), torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    totals = (weights[:, None] * rows.double()).sum(0)
    wanted = [float(totals.mean()), float(totals.var()), float(totals.abs().mean())]
    assert native.moments(rows, weights).tolist() == pytest.approx(wanted)
    assert native.moments(rows.double(), weights).tolist() == pytest.approx(wanted)


# ---- getting them


def run(code: str, folder: Path, **variables: str) -> str:
    environment = {"PATH": "/nowhere", "XDG_CACHE_HOME": str(folder), "PYTHONPATH": ":".join(sys.path), **variables}
    command = [sys.executable, "-c", "from cockpit.engine import native\n" + code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout


def test_without_a_compiler_the_reason_is_told(tmp_path: Path) -> None:
    assert "there is no C compiler" in run("print(native.problem())", tmp_path)
    assert run("print(native.problem())", tmp_path, COCKPIT_NATIVE="0") == "COCKPIT_NATIVE=0\n"


def test_they_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = build._built()
    assert first.is_relative_to(tmp_path)
    assert {path.name for path in first.parent.iterdir()} == {first.name, first.with_suffix(".sum").name}
    written = first.stat().st_mtime_ns
    assert build._built() == first
    assert first.stat().st_mtime_ns == written
    assert run("print(native.problem())", tmp_path) == "None\n"  # found there without a compiler


def test_what_earlier_versions_compiled_is_removed_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "cockpit"
    folder.mkdir(mode=0o700)
    old, recent, other = (folder / name for name in ("loops-old.so", "loops-recent.so", "notes.txt"))
    for file in (old, recent, other):
        file.touch()
    for file in (old, other):
        os.utime(file, (0, 0))
    built = build._built()
    assert sorted(folder.iterdir()) == sorted([built, built.with_suffix(".sum"), recent, other])


def test_a_damaged_file_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = build._built()
    made.write_bytes(made.read_bytes()[:100])
    assert build._built() == made
    assert build._loaded(made).pack


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build._folder() == tmp_path / "cockpit"
    (tmp_path / "cockpit").chmod(0o777)
    assert build._folder() != tmp_path / "cockpit"


@pytest.mark.parametrize("size", [0, 100, 4096, 60_000])
def test_a_file_that_was_cut_short_does_not_end_the_process(tmp_path: Path, size: int) -> None:
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path)}
    assert run("print(native.problem())", tmp_path, **environment) == "None\n"
    (made,) = (tmp_path / "cockpit").glob("loops-*.so")
    made.write_bytes(made.read_bytes()[:size])
    assert run("print(native.problem())", tmp_path, **environment) == "None\n"


def test_a_file_of_somebody_else_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = tmp_path / "loops.so"
    foreign.write_bytes(b"")
    foreign.chmod(0o700)
    assert not build._trusted(foreign), "without a checksum"
    foreign.with_suffix(".sum").write_text(build._digest(foreign))
    assert build._trusted(foreign)
    foreign.chmod(0o722)
    assert not build._trusted(foreign), "others may write it"
    foreign.chmod(0o700)
    monkeypatch.setattr(build.os, "getuid", lambda: foreign.stat().st_uid + 1)
    assert not build._trusted(foreign)


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_joint_histograms_are_exact(bins: Bins, kind: str, spread: float) -> None:
    row, col, theta = numbers((6, 5), kind), numbers((6, 77), kind), spread * numbers((5, 77), "usual")
    beside = Bins(20, -2.0, 2.0)
    theta[1, 3], theta[2, :9] = float("nan"), 0.0
    found = native.joint_counts(row, col, theta, bins, beside)
    assert torch.equal(found, by_hand(row, col, theta, bins, beside))


def by_hand(row: Tensor, col: Tensor, theta: Tensor, bins: Bins, beside: Bins) -> Tensor:
    wanted = torch.zeros(bins.count, beside.count, dtype=torch.int64)
    at = np.searchsorted(beside.edges[1:-1], theta.double().numpy(), side="right")
    for r, c in zip(row, col, strict=True):
        k = np.searchsorted(bins.edges[1:-1], (r[:, None] * c[None]).double().numpy(), side="right")
        np.add.at(wanted.numpy(), (k, at), 1)
    return wanted


@pytest.mark.parametrize("steps", [(1, 1), (2, 3)])
def test_joint_histograms_of_many_samples_on_two_threads_are_exact(steps: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)  # more samples than a byte counts, most products small, some not
    row = 0.03 * torch.randn(600, 8 * steps[0], generator=generator)[:, : 8 * steps[0] : steps[0]]
    col = torch.randn(600, 300 * steps[1], generator=generator)[:, : 300 * steps[1] : steps[1]]
    theta = 0.1 * torch.randn(8, 300, generator=generator)
    bins, beside = Bins(40, -1.0, 1.0), Bins(50, -2.0, 2.0)
    assert torch.equal(native.joint_counts(row, col, theta, bins, beside), by_hand(row, col, theta, bins, beside))
    assert torch.equal(
        native.joint_counts(row, col.abs(), theta, bins, beside), by_hand(row, col.abs(), theta, bins, beside)
    )


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1, 2])
def test_pairs_are_counted_exactly(bins: Bins, kind: str, step: int) -> None:
    """Also infinite ones, those that are not numbers, and more than are guessed together."""
    g, places = numbers((5, 150 * step), kind)[:, ::step], torch.arange(150, dtype=torch.int32) % 7
    counts = torch.ones(bins.count, 7, dtype=torch.int64)
    native.pair_counts(g, places, 7, bins, counts)
    wanted = torch.ones(bins.count, 7, dtype=torch.int64)
    k = np.searchsorted(bins.edges[1:-1], g.double().numpy(), side="right")
    np.add.at(wanted.numpy(), (k, np.broadcast_to(places.numpy(), k.shape)), 1)
    assert torch.equal(counts, wanted)


def test_pairs_are_counted_by_two_threads() -> None:
    generator, bins = torch.Generator().manual_seed(0), Bins(40, -1.0, 1.0)
    g, places = torch.randn(33, 4000, generator=generator), torch.randint(50, (4000,), generator=generator).int()
    counts = torch.zeros(40, 50, dtype=torch.int64)
    native.pair_counts(g, places, 50, bins, counts)
    wanted = torch.bincount((bins.index(g) * 50 + places).flatten(), minlength=2000).view(40, 50)
    assert torch.equal(counts, wanted)


def test_small_operations_are_as_torch_does_them() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, 14, generator=generator)
    assert torch.equal(native.scaled(x[:, ::2], 0.3), x[:, ::2] * 0.3)
    for rows in (list(x), [row.long() for row in 5 * x], [row[::2] for row in x.double()]):
        assert torch.equal(native.stack(rows), torch.stack(rows))


@pytest.mark.parametrize("size", [1.0, 90.0, 1e30])
def test_cross_entropy_is_as_in_double_precision(size: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, targets = size * torch.randn(13, 7, generator=generator), torch.randint(7, (13,), generator=generator)
    targets[3] = -100
    found = native.cross_entropy(logits[:, :], targets, -100)
    wanted = F.cross_entropy(logits.double(), targets, reduction="none")
    assert found.tolist() == pytest.approx(wanted.tolist(), rel=3e-7, abs=1e-7)
    assert found[3] == 0
    spread = torch.cat([logits, logits], 1)[:, ::2]
    assert torch.equal(native.cross_entropy(spread, targets, -100), native.cross_entropy(spread.clone(), targets, -100))


def test_cross_entropy_of_what_is_not_finite_is_not_finite() -> None:
    logits = torch.tensor([[0.0, float("nan"), 1.0], [float("inf"), 0.0, 0.0], [float("-inf"), 0.0, 0.0]])
    found = native.cross_entropy(logits, torch.tensor([0, 0, 0]), -100).tolist()
    wanted = F.cross_entropy(logits, torch.tensor([0, 0, 0]), reduction="none").tolist()
    assert str(found) == str(wanted)


@pytest.mark.parametrize("epsilon", [0.0, 1e-5])
@pytest.mark.parametrize("size", [1, 7, 8, 100_003])
def test_sums_over_elements(size: int, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    g, samples = numbers((size,), "usual"), 9
    sum_sq = samples * g.square() + numbers((size + 1,), "sparse")[1:]  # some have no variance but rounding
    diagonal = numbers((size + 2,), "usual")[2:].abs() + 0.1
    found = [
        derived.signal_to_noise(g, sum_sq, samples, 1, epsilon),
        derived.noise_to_curvature(sum_sq, diagonal, epsilon),
        derived.noise_to_curvature(sum_sq, None, epsilon + 0.5),
    ]
    monkeypatch.setattr(native, "usable", lambda *tensors: False)
    slow = [
        derived.signal_to_noise(g, sum_sq, samples, 1, epsilon),
        derived.noise_to_curvature(sum_sq, diagonal, epsilon),
        derived.noise_to_curvature(sum_sq, None, epsilon + 0.5),
    ]
    for one, other in zip(found, slow, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)
    spread = sum_sq.double() / samples - g.double().square()
    counted = (spread > 8 * torch.finfo(torch.float32).eps * sum_sq.double() / samples).sum()
    assert int(found[0][1]) == (size if epsilon else int(counted))


def test_sums_over_elements_that_are_no_numbers() -> None:
    g, sum_sq = numbers((50,), "odd"), numbers((50,), "usual").square() + 10
    assert torch.isfinite(derived.signal_to_noise(g, sum_sq, 9, 1, 0.0)).all()  # they have no variance
    assert torch.isnan(derived.signal_to_noise(g, sum_sq, 9, 1, 1e-5)[0])
    assert torch.isnan(derived.noise_to_curvature(g, sum_sq, 1e-5))
