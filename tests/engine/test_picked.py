"""Loops that pass over what max-pooling dropped, against convolutions with all their zeros in double precision."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from tests.products import product_of
from torch import Tensor, nn

import cockpit
from cockpit.engine import conv_loops, formed, native
from cockpit.engine.native import picked
from cockpit.engine.native.picked import Grid, Picks, grid
from cockpit.engine.tangent_picked import Picked
from cockpit.engine.wanted import Wanted
from cockpit.layers.forms import Convolved, Scratch, chunks

pytestmark = pytest.mark.skipif(native.problem() is not None, reason=f"no compiled loops: {native.problem()}")


@dataclass(frozen=True)
class Case:
    """A convolution; ``places`` that are picked in each channel."""

    channels: int
    size: tuple[int, int]
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    places: int = 5
    samples: int = 5


CASES = {
    "whole blocks": Case(8, (7, 6), 5, (3, 3)),
    "three colours": Case(3, (9, 8), 4, (5, 5)),
    "one colour": Case(1, (6, 6), 3, (2, 3)),
    "ten channels": Case(10, (5, 7), 6, (3, 3), padding=(1, 1)),
    "many blocks": Case(24, (6, 5), 3, (3, 3), padding=(1, 0)),
    "stride": Case(3, (9, 9), 4, (3, 2), stride=(2, 3), padding=(1, 1)),
    "dilation": Case(3, (9, 9), 4, (3, 3), dilation=(2, 2), padding=(2, 1)),
    "overlapping runs": Case(2, (3, 20), 4, (1, 6), dilation=(1, 2)),
    "one pixel": Case(16, (4, 4), 8, (1, 1)),
    "one place": Case(8, (3, 3), 2, (3, 3), places=1),
    "one sample": Case(8, (6, 6), 2, (3, 3), samples=1),
}


class Numbers:
    """What a case is tried on; some places are picked twice, some are none."""

    def __init__(self, case: Case, columns: int = 9) -> None:
        draw = torch.Generator().manual_seed(columns)
        n, o, s = case.samples, case.outputs, case.places
        self.case, self.settings = case, (case.stride, case.padding, case.dilation)
        self.signal = torch.randn(n, case.channels, *case.size, generator=draw)
        self.weight = torch.randn(o, case.channels, *case.kernel, generator=draw)
        self.shape = tuple(F.conv2d(self.signal, self.weight, None, *self.settings).shape)
        self.positions = self.shape[2] * self.shape[3]
        self.index = torch.randint(self.positions + 1, (n, o, s), generator=draw)  # the last one: none
        self.value = torch.randn(columns, n, o, s, generator=draw)
        self.signs = torch.randint(0, 2, (columns, n), generator=draw) * 2 - 1
        self.grid = grid(case.channels, case.size, case.kernel, *self.settings, self.shape[2:])
        self.picks = Picks(self.grid, self.index)

    def dense(self, value: Tensor) -> Tensor:
        """[..., N, O, S] with the zeros, in double precision: [..., N, O, *positions]."""
        images = value.new_zeros(*value.shape[:-1], self.positions + 1, dtype=torch.float64)
        images.scatter_add_(-1, self.index.expand(value.shape), value.double())
        return images[..., :-1].unflatten(-1, self.shape[2:])

    def weights(self, value: Tensor, signal: Tensor) -> Tensor:
        """Gradient of the weight for each sample, [N, O, C, *kernel]."""
        weight = self.weight.double()
        return torch.stack(
            [
                torch.nn.grad.conv2d_weight(signal[n : n + 1].double(), weight.shape, image[None], *self.settings)
                for n, image in enumerate(self.dense(value))
            ]
        )

    def data(self, value: Tensor, weight: Tensor) -> Tensor:
        return torch.nn.grad.conv2d_input(self.signal.shape, weight.double(), self.dense(value), *self.settings)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("columns", [1, 9, 12, 13, 25])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_squares_of_many_columns(case: Case, columns: int, signed: bool) -> None:
    given = Numbers(case, columns)
    signs = given.signs if signed else torch.ones_like(given.signs)
    slow = torch.stack([given.weights(value, given.signal) for value in given.value])  # [K, N, ...]
    expected = torch.einsum("kn,knoi->oi", signs.double(), slow.flatten(3).square()).view(given.weight.shape)
    bias = torch.einsum("kn,kno->o", signs.double(), given.dense(given.value).flatten(3).sum(3).square())
    images = given.grid.images(given.signal)
    rows, sums = given.picks.squares(images, given.value, given.signs if signed else None)
    torch.testing.assert_close(given.grid.weight(rows).double(), expected, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(sums.double(), bias, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("columns", [1, 9, 13])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_of_the_data_of_many_columns(case: Case, columns: int) -> None:
    given = Numbers(case, columns)
    expected = torch.stack([given.data(value, given.weight) for value in given.value])
    turned = given.value.permute(1, 3, 2, 0).contiguous().permute(3, 0, 2, 1)  # another order in memory
    for value in (given.value, turned):
        found = given.grid.signal(given.picks.back(given.grid.rows(given.weight), value)).movedim(1, 0)
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("halves", ["both", "one", "other"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_halves_of_the_product_rule(case: Case, halves: str) -> None:
    given, one, two = Numbers(case), float(halves != "other"), float(halves != "one")
    signal, weight, bias = torch.rand_like(given.signal), torch.rand_like(given.weight), torch.rand(case.outputs)
    v, u = given.value[0], given.value[1].mT.contiguous().mT
    first = (given.grid.images(given.signal), given.grid.rows(weight)) if one else None
    second = (given.grid.images(signal), given.grid.rows(given.weight)) if two else None

    slow = one * F.conv2d(given.signal.double(), weight.double(), None, *given.settings)
    slow = slow + two * F.conv2d(signal.double(), given.weight.double(), None, *given.settings)
    there = given.index < given.positions
    slow = (slow.flatten(2) + bias[:, None]).gather(2, given.index.where(there, torch.zeros(())).long()) * there
    torch.testing.assert_close(given.picks.forward(first, second, bias).double(), slow, rtol=1e-4, atol=1e-4)

    beside = (given.grid.images(signal), u) if two else None
    rows, sums = given.picks.weights((given.grid.images(given.signal), v), beside)
    expected = given.weights(v, given.signal).sum(0) + two * given.weights(u, signal).sum(0)
    torch.testing.assert_close(given.grid.weight(rows).double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sums.double(), given.dense(v).sum((0, 2, 3)), rtol=1e-4, atol=1e-4)

    other = (given.grid.rows(weight), u) if two else None
    laid = given.picks.data((given.grid.rows(given.weight), v), other)
    expected = given.data(v, given.weight) + two * given.data(u, weight)
    torch.testing.assert_close(given.grid.signal(laid).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_of_each_sample(case: Case, order: torch.memory_format) -> None:
    given = Numbers(case)
    response = given.dense(given.value[0]).float().contiguous(memory_format=order)
    settings = case.stride, case.padding, case.dilation
    form = Convolved(tuple(given.weight.shape), given.signal[:, None], response[:, None], 1, *settings, factor=0.5)
    expected = 0.5 * given.weights(given.value[0], given.signal)
    parts = [g.clone() for _, g in conv_loops.formed(form, Scratch(), None)]
    torch.testing.assert_close(torch.cat(parts).view(expected.shape).double(), expected, rtol=1e-4, atol=1e-4)
    into = torch.empty(case.samples, given.weight.numel())
    for begin, g in conv_loops.formed(form, Scratch(), into):
        assert g.data_ptr() == into[begin].data_ptr()
    torch.testing.assert_close(into.view(expected.shape).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_several_threads_make_the_same_numbers(case: Case) -> None:
    given = Numbers(case)
    pair = given.grid.images(given.signal), given.value[0]
    rows = given.grid.rows(given.weight)
    response = given.dense(given.value[0]).float().flatten(2)

    def everything() -> list[Tensor]:
        g = torch.empty(case.samples, given.weight.numel())
        given.grid.formed(pair[0], response, 1.0, g)
        return [
            *(part.clone() for part in given.picks.squares(pair[0], given.value, None)),
            given.grid.signal(given.picks.back(rows, given.value)).clone(),
            given.picks.forward((pair[0], rows), (pair[0], rows), None).clone(),
            *given.picks.weights(pair, pair),
            given.grid.signal(given.picks.data((rows, pair[1]), (rows, pair[1]))).clone(),
            g,
        ]

    alone = everything()
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for _ in range(5):
            assert all(torch.equal(one, other) for one, other in zip(alone, everything(), strict=True))
    finally:
        torch.set_num_threads(before)


def convolved(share: float, **changes: int) -> Convolved:
    """A convolution of which this share of the response is not zero."""
    groups = changes.get("groups", 1)
    signal, response = torch.randn(10, 1, 4, 6, 6), torch.randn(10, 1, 4, 4, 4)
    response *= torch.rand_like(response) < share
    return Convolved((4, 4 // groups, 3, 3), signal, response, groups, (1, 1), (0, 0), (1, 1))


def test_loops_are_used_where_there_are_many_zeros() -> None:
    assert conv_loops.suits(convolved(0.25))
    assert not conv_loops.suits(convolved(0.9))
    assert not conv_loops.suits(convolved(0.25, groups=2))
    double = convolved(0.25)
    assert not conv_loops.suits(
        Convolved(double.shape, double.signal.double(), double.response.double(), 1, (1, 1), (0, 0), (1, 1))
    )


def test_statistics_are_the_same_with_and_without_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    form, theta, wanted = convolved(0.25), torch.randn(4, 4, 3, 3), Wanted(sq_norm=True, sum_sq=True, abs_max=True)
    quick = formed.compute(form, theta, wanted, {"v": theta}, room=2**30)
    monkeypatch.setattr(conv_loops, "suits", lambda form: False)
    slow = formed.compute(form, theta, wanted, {"v": theta}, room=2**30)
    for one, other in (
        (quick.sq_norm, slow.sq_norm),
        (quick.sum_sq, slow.sum_sq),
        (quick.abs_max, slow.abs_max),
        (quick.dots["v"], slow.dots["v"]),
    ):
        torch.testing.assert_close(one, other)


def test_what_is_not_a_number_stays_so() -> None:
    form = convolved(0.25)
    form.response[3, 0, 2, 1, 1] = float("nan")
    found = torch.cat([g.clone() for _, g in conv_loops.formed(form, Scratch(), None)]).view(10, *form.shape)
    slow = torch.cat([g.clone() for _, g in chunks(form)]).view(found.shape)
    assert torch.equal(found.isnan(), slow.isnan())
    assert bool(found[3, 2].isnan().all())


def net() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 5, 3), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    layers += [nn.Conv2d(5, 8, 2, bias=False), nn.MaxPool2d(2, 1), nn.ReLU()]
    layers += [nn.Conv2d(8, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3))


@pytest.mark.parametrize("frozen", [(), ("0.weight",), ("0.weight", "0.bias"), ("3.weight",), ("6.weight",)])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_products_with_the_hessian_of_a_pooled_net(frozen: tuple[str, ...], order: torch.memory_format) -> None:
    x, y = torch.randn(6, 3, 12, 12, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3
    model = net()
    model(x)
    model = model.to(memory_format=order)
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    loss, product = product_of(model, x.contiguous(memory_format=order), y)
    parameters = product.parameters
    assert sum(isinstance(layer, Picked) for layer in product.chain) == (2 if len(frozen) == 2 else 3)

    vector = torch.randn(sum(p.numel() for p in parameters.values()), generator=torch.Generator().manual_seed(2))
    quick = product.flat(vector)
    grads = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
    along = sum((g * v).sum() for g, v in zip(grads, product.parts(vector).values(), strict=True))
    slow = torch.autograd.grad(along, list(parameters.values()), retain_graph=True)
    torch.testing.assert_close(quick, torch.cat([part.flatten() for part in slow]), rtol=1e-3, atol=1e-5)
    assert product.agrees(product.parts(vector))


def test_more_places_than_a_list_tells_apart_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of the first layer have 5 channels of 25 places, of the second 8 of 9, of the third 4 of 1."""
    x, y, model = torch.randn(6, 3, 12, 12), torch.arange(6) % 3, net()
    model(x)
    for limit, expected in ((26, 3), (25, 2), (8, 1), (4, 0)):
        monkeypatch.setattr(picked, "LISTED", limit)
        assert sum(isinstance(layer, Picked) for layer in product_of(model, x, y)[1].chain) == expected


def test_places_that_cannot_be_listed_have_the_same_curvature(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, model, loss_fn = torch.randn(6, 3, 12, 12), torch.arange(6) % 3, net(), nn.CrossEntropyLoss()
    model(x)
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.0), list[float]()
    made = list[int]()
    monkeypatch.setattr(Picks, "_by_position", lambda self, make=Picks._by_position: made.append(1) or make(self))
    for limit in (2**16, 1):
        monkeypatch.setattr(picked, "LISTED", limit)
        with cockpit.watch(model, optimizer, loss_fn, quantities=["HessTrace"], every=1, run=False) as pit:
            made.clear()
            loss_fn(model(x), y).backward()
            optimizer.step()
        found.append(pit.history.series("HessTrace")[0].value)
        assert bool(made) == (limit > 1)
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_grids_are_made_once() -> None:
    assert isinstance(Numbers(CASES["stride"]).grid, Grid)
    assert Numbers(CASES["stride"]).grid is Numbers(CASES["stride"]).grid
