"""Alpha's parabola: the weighted least-squares fit, against the same fit in whole fractions."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import torch
from torch import nn

import cockpit
from cockpit.core.errors import Undefined
from cockpit.engine.step.line import Line, LineEnd
from cockpit.quantities.alpha import fit
from cockpit.tracking.watched import Watch

ROWS = ((1, 0, 0), (1, 1, 1), (0, 1, 0), (0, 1, 2))  # loss, loss, slope, slope at the two ends


def exact(line: Line) -> tuple[Fraction, Fraction]:
    """By the normal equations, without rounding."""
    length, ends = Fraction(line.length), (line.start, line.end)
    seen = [*(Fraction(end.loss) for end in ends), *(Fraction(end.slope) * length for end in ends)]
    spread = [*(Fraction(e.loss_variance) for e in ends), *(Fraction(e.slope_variance) * length**2 for e in ends)]
    observed = list(zip(ROWS, seen, spread, strict=True))
    table = [
        [*(sum(row[i] * row[j] / v for row, _, v in observed) for j in range(3)),
         sum(row[i] * y / v for row, y, v in observed)]
        for i in range(3)
    ]  # fmt: skip
    for i in range(3):
        pivot = [entry / table[i][i] for entry in table[i]]
        table = [
            pivot if k == i else [x - row[i] * y for x, y in zip(row, pivot, strict=True)]
            for k, row in enumerate(table)
        ]
    return Fraction(table[1][3]), Fraction(table[2][3])


def line(*variances: float, seed: int = 0, length: float = 0.3) -> Line:
    draw = random.Random(seed)
    losses, slopes = ((draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(2))
    first, second, third, fourth = variances
    return Line(length, LineEnd(losses[0], slopes[0], first, third), LineEnd(losses[1], slopes[1], second, fourth))


@pytest.mark.parametrize("seed", range(50))
def test_the_fit_is_that_of_least_squares(seed: int) -> None:
    draw = random.Random(seed)
    found = line(*(10 ** draw.uniform(-12, 3) for _ in range(4)), seed=seed, length=10 ** draw.uniform(-3, 2))
    wanted = [float(value) for value in exact(found)]
    size = max(map(abs, wanted))
    assert fit(found) == pytest.approx(wanted, abs=1e-12 * size, rel=1e-12)


def test_without_noise_all_observations_weigh_the_same() -> None:
    assert fit(line(0, 0, 0, 0, length=1.0)) == pytest.approx(
        [float(value) for value in exact(line(1, 1, 1, 1, length=1.0))], rel=1e-12
    )


@pytest.mark.parametrize(
    ("variances", "nearly"),
    [((0, 0, 1, 1), (1e-30, 1e-30, 1, 1)), ((1, 0, 0, 2), (1, 1e-30, 1e-30, 2)), ((1, 1, 0, 0), (1, 1, 1e-30, 1e-30))],
)
def test_what_has_no_noise_is_certain(variances: tuple[float, ...], nearly: tuple[float, ...]) -> None:
    assert fit(line(*variances)) == pytest.approx([float(value) for value in exact(line(*nearly))], rel=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e-320, 1e200])
def test_only_proportions_of_variances_matter(scale: float) -> None:
    unit, scaled = (fit(line(*(v * s for v in (1, 1, 1, 1)))) for s in (1.0, scale))
    assert scaled == pytest.approx(unit, rel=1e-3 if scale < 1e-300 else 1e-12)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_not_finite(bad: float) -> None:
    for variances in ((bad, 1, 1, 1), (1, 1, 1, bad)):
        with pytest.raises(Undefined, match="not finite"):
            fit(line(*variances))


def watched(quantities: list[str], optimizer: str, every: int) -> Watch:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)
    loss_fn = nn.CrossEntropyLoss()
    with cockpit.watch(model, steps, loss_fn, quantities=quantities, every=every, run=False) as pit:
        for _ in range(12):
            steps.zero_grad()
            loss_fn(model(torch.randn(8, 5).double()), torch.randint(3, (8,))).backward()
            steps.step()
    return pit


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_alone_it_is_the_same(optimizer: str, every: int) -> None:
    alone, beside = (watched(names, optimizer, every) for names in (["Alpha"], ["InnerTest", "Alpha"]))
    found, expected = (pit.history.series("Alpha") for pit in (alone, beside))
    assert [record.step for record in found] == [record.step for record in expected]
    known = [(record.value, other.value) for record, other in zip(found, expected, strict=True)]
    defined = [pair for pair in known if pair[0] is not None]
    assert len(defined) >= 3
    assert all(one == pytest.approx(other, rel=1e-9) for one, other in defined)
