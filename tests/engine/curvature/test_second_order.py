"""What a step asks for, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.engine.curvature.curved import Curved, by_name, check, curved, dense_hessian, dense_newton
from tests.engine.curvature.nets import LOSSES, prepared

from cockpit.engine.curvature.gauss_newton import Memory
from cockpit.engine.curvature.product import HessianProduct
from cockpit.engine.curvature.second_order import compute
from cockpit.engine.needs import MAX_EIGENVALUE, Diagonal

ALL = frozenset({MAX_EIGENVALUE, *(Diagonal(kind, 3) for kind in ("ggn", "ggn_mc", "hessian", "hutchinson"))})


def given_of(name: str = "perceptron") -> Curved:
    model, inputs = prepared(name)
    return curved(model, inputs, LOSSES["cross entropy"])


def test_everything_at_once() -> None:
    given = given_of()
    before = torch.get_rng_state()
    found = compute(ALL, given.request(), Memory(), 1)
    assert torch.equal(before, torch.get_rng_state())
    dense = dense_hessian(given)
    assert not isinstance(found.eigenpair, str | None)
    assert found.eigenpair.value == pytest.approx(float(torch.linalg.eigvalsh(dense)[-1]), rel=1e-3)
    for kind, matrix in {"ggn": dense_newton(given, LOSSES["cross entropy"]), "hessian": dense}.items():
        (diagonal,) = found.diagonals[Diagonal(kind, 3)]
        check(diagonal, by_name(matrix.diagonal(), given.parameters))  # type: ignore[arg-type]
    for kind in ("ggn_mc", "hutchinson"):
        assert len(found.diagonals[Diagonal(kind, 3)]) == 3


def test_the_same_seed_gives_the_same_numbers() -> None:
    given = given_of()
    runs = [compute(ALL, given.request(), Memory(), seed) for seed in (1, 1, 2)]
    for kind in ("ggn_mc", "hutchinson"):
        one, same, other = (run.diagonals[Diagonal(kind, 3)][0] for run in runs)
        assert all(torch.equal(one[name], same[name]) for name in one)  # type: ignore[index, call-overload]
        assert not all(torch.equal(one[name], other[name]) for name in one)  # type: ignore[index, call-overload]


def test_a_second_search_starts_where_the_first_ended() -> None:
    given, memory = given_of(), Memory()
    first, second = (compute(frozenset({MAX_EIGENVALUE}), given.request(), memory, 1).eigenpair for _ in range(2))
    assert second.value == pytest.approx(first.value, rel=1e-3)  # type: ignore[union-attr]
    assert second.products < first.products  # type: ignore[union-attr]


def test_the_eigenvalue_of_accumulated_passes_is_not_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a product was made")

    monkeypatch.setattr(HessianProduct, "__init__", never)
    found = compute(frozenset({MAX_EIGENVALUE, Diagonal()}), given_of().request(accumulated=True), Memory(), 1)
    assert "accumulated" in str(found.eigenpair)
    assert not isinstance(found.diagonals[Diagonal()], str)


def test_where_samples_are_is_asked_of_columns_only() -> None:
    given = given_of()
    request = given.request()
    unplaced = type(request)(request.loss, request.network, "no samples here", request.place)
    found = compute(ALL, unplaced, Memory(), 1)
    assert found.diagonals[Diagonal("ggn", 3)] == found.diagonals[Diagonal("ggn_mc", 3)] == "no samples here"
    assert not isinstance(found.eigenpair, str)
    assert not isinstance(found.diagonals[Diagonal("hessian", 3)], str)


def test_what_makes_all_impossible_is_the_reason_of_all() -> None:
    found = compute(ALL, given_of().request(impossible="recomputed"), Memory(), 1)
    assert {found.eigenpair, *found.diagonals.values()} == {"recomputed"}  # type: ignore[arg-type]


def test_no_output_no_columns() -> None:
    given = given_of()
    request = given.request()
    network = type(request.network)(given.graph, given.parameters, [], request.network.uses)
    found = compute(frozenset({Diagonal()}), type(request)(request.loss, network, None, request.place), Memory(), 1)
    assert "output is not known" in str(found.diagonals[Diagonal()])


def test_an_estimate_where_the_exact_one_takes_too_many_columns() -> None:
    """A model of language: every word is an output."""
    torch.manual_seed(0)
    words = 1500
    model, labels = torch.nn.Linear(4, words), torch.randint(words, (6,))
    given = curved(model, torch.randn(6, 4), lambda o: torch.nn.functional.cross_entropy(o, labels))
    exact, estimate = Diagonal("ggn"), Diagonal("ggn_mc")
    found = [compute(frozenset({exact, estimate}), given.request(), Memory(), seed) for seed in range(40)]
    assert all(one.estimated == {exact} for one in found)
    p = given.output.detach().double().softmax(1)
    traces = [float(one.diagonals[exact][0]["bias"].sum()) for one in found]  # type: ignore[index, call-overload]
    assert sum(traces) / len(traces) == pytest.approx(float((p * (1 - p)).sum() / 6), rel=0.05)
    assert compute(frozenset({exact}), given_of().request(), Memory(), 1).estimated == set()
