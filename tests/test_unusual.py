"""Sparse, complex and ragged tensors, operations without a second derivative: what is left out is told in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.small import individual_gradients, reasons, values, watch
from torch import Tensor, nn

from cockpit.tracking.watched import Watch

LINE = 120  # characters
ROWS = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(6) % 3


class Words(nn.Module):
    def __init__(self, sparse: bool, bag: bool = False) -> None:
        super().__init__()
        kind: Any = nn.EmbeddingBag if bag else nn.Embedding
        self.words, self.head, self.bag = kind(20, 4, sparse=sparse), nn.Linear(4, 3), bag

    def forward(self, x: Tensor) -> Tensor:
        looked_up = self.words(x)
        return self.head(looked_up if self.bag else looked_up.mean(1))  # type: ignore[no-any-return]


class Graph(nn.Module):
    """Two layers on a graph, whose edges are a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.randn(5, 4)), nn.Parameter(torch.randn(4, 3))
        self.bias = nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return torch.spmm(edges, (torch.spmm(edges, x @ self.first) + self.bias).relu() @ self.second)


class Waves(nn.Module):
    """A weight of complex numbers, as one or as pairs of real ones, beside a real layer."""

    def __init__(self, as_pairs: bool) -> None:
        super().__init__()
        weight = torch.randn(5, 4, dtype=torch.cdouble, generator=torch.Generator().manual_seed(1))
        self.weight = nn.Parameter(torch.view_as_real(weight) if as_pairs else weight)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight if self.weight.is_complex() else torch.view_as_complex(self.weight)
        return self.head((x.to(torch.cdouble) @ weight).abs())  # type: ignore[no-any-return]


def build(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return make().double()


def run(model: nn.Module, loss_of: Callable[[nn.Module], Tensor], quantities: Any = "full", **options: Any) -> Watch:
    with watch(model, torch.optim.SGD(model.parameters(), lr=0.01), quantities=quantities, **options) as pit:
        for _ in range(2):
            model.zero_grad()
            loss_of(model).backward()
            optimizer = pit._optimizers[0]
            optimizer.step()
    for name, found in pit.history.reasons().items():
        for reason in found:
            assert len(reason) <= LINE, f"{name}: {reason}"
            assert "Error" not in reason, f"{name}: {reason}"
    for reason in pit._tracker.coverage.uncovered.values():
        assert len(reason) <= LINE
        assert "Error" not in reason
    return pit


def words(model: nn.Module) -> Tensor:
    return F.cross_entropy(model(torch.arange(30).reshape(6, 5) % 20), LABELS)


def rows(model: nn.Module) -> Tensor:
    return F.cross_entropy(model(ROWS), LABELS)


@pytest.mark.parametrize("bag", [False, True])
def test_a_sparse_weight_alone_is_left_out(bag: bool) -> None:
    pit = run(build(lambda: Words(True, bag)), words)
    assert list(pit._tracker.coverage.uncovered) == ["words.weight"]
    assert "sparse=False" in pit.explain()
    assert "sparse=False" in reasons(pit, "HessMaxEV")[0]
    assert pit.get_output()[0]["NormTest"] is not None
    assert len(pit.get_output()[0]["GradNorm"]) == 3
    whole = run(build(lambda: Words(False, bag)), words)
    assert not whole._tracker.coverage.uncovered
    assert (whole.get_output()[0]["HessTrace"] is not None) or bag


@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_edges_of_a_graph_may_be_sparse() -> None:
    edges = (torch.rand(6, 6, generator=torch.Generator().manual_seed(2)) < 0.4).double() + torch.eye(6).double()
    found = [
        run(build(Graph), lambda model, e=e: F.cross_entropy(model(ROWS, e), LABELS), "economy")  # type: ignore[misc]
        for e in (edges, edges.to_sparse(), edges.to_sparse_csr())
    ]
    dense, *others = [pit.get_output()[0] for pit in found]
    for other in others:
        for name in ("NormTest", "InnerTest", "OrthoTest"):
            assert other[name] == pytest.approx(dense[name])
    assert not any(pit._tracker.coverage.uncovered for pit in found)


def test_complex_parameters_do_not_spoil_the_real_ones() -> None:
    pit = run(build(lambda: Waves(False)), rows)
    assert "view_as_real" in pit._tracker.coverage.uncovered["weight"]
    model = build(lambda: Waves(True))
    whole = run(model, rows, "economy")
    truth = individual_gradients(
        build(lambda: Waves(True)), lambda model: F.cross_entropy(model(ROWS), LABELS, reduction="none")
    )
    assert whole.get_output()[0]["NormTest"] == pytest.approx(values(truth)["NormTest"])
    real = {name: g for name, g in truth.items() if name != "weight"}
    assert pit.get_output()[0]["NormTest"] == pytest.approx(values(real)["NormTest"])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_ragged_batches_are_told_and_lose_no_step(layout: torch.layout) -> None:
    model = build(lambda: nn.Linear(5, 3))
    parts = list(ROWS.split([1, 2, 3]))

    def ragged(model: nn.Module) -> Tensor:
        given = torch.nested.nested_tensor(parts, layout=layout)
        return F.cross_entropy(torch.stack([part.mean(0) for part in model(given).unbind()]), LABELS[:3])

    pit = run(model, ragged, "economy")
    assert [row["Loss"] is None for row in pit.get_output().values()] == [False, False]
    assert "to_padded_tensor" in reasons(pit, "NormTest")[0]


def test_operations_without_a_second_derivative() -> None:
    def apart(model: nn.Module) -> Tensor:
        return F.cross_entropy(-torch.cdist(model(ROWS), ROWS[:3, :4]), LABELS)

    distances = run(build(lambda: nn.Linear(5, 4)), apart)
    assert "differentiated twice" in reasons(distances, "HessMaxEV")[0]
    assert distances.get_output()[0]["NormTest"] is not None

    def aligned(model: nn.Module) -> Tensor:
        likely = F.log_softmax(model(ROWS.expand(12, 6, 5)), -1)
        return F.ctc_loss(likely, torch.ones(6, 2, dtype=torch.long), torch.full((6,), 12), torch.full((6,), 2))

    speech = run(build(lambda: nn.Linear(5, 4)), aligned, batch_axis=1)
    assert "differentiated twice" in reasons(speech, "HessTrace")[0]
    assert speech.get_output()[0]["NormTest"] is not None
