"""How long counting takes, by how much of the histogram the gradients fill: the counterpart of the paper's figure 15.

Factors are drawn evenly, so wide that their products fill a share of the histogram. Formed gradients have the size of
those of a layer of 3c3d; those of a linear layer are never formed by this package, but by what it is compared with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
import torch
from results import Row
from timing import Clock, significant
from torch import Tensor

from cockpit.engine import form_statistics as statistics
from cockpit.engine.form_statistics import Wanted
from cockpit.engine.statistics.bins import Bins
from cockpit.layers.forms import Factored

SHARES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)  # of the histogram that gradients and parameters fill
ONE = Bins(100, -2.0, 2.0)
TWO = Bins(40, -1.0, 1.0), Bins(50, -2.0, 2.0)
SIZES = {"formed": (128, 96, 1152), "linear": (128, 512, 1152)}  # samples, outputs, inputs
POSITIONS = {"formed": 16, "linear": 1}  # gradients that are sums of several products must be formed


@dataclass(frozen=True)
class Data:
    """Factors of individual gradients, and parameters."""

    form: Factored
    theta: Tensor

    @classmethod
    def drawn(cls, what: str, share: float, device: str, sizes: tuple[int, int, int]) -> "Data":
        """Sums of several products must be formed; they are about as wide as single ones."""
        samples, rows, columns = sizes
        draw = torch.Generator(device).manual_seed(0)

        def even(width: float, *shape: int) -> Tensor:
            return (torch.rand(shape, generator=draw, device=device) * 2 - 1) * width

        count = POSITIONS[what]
        left, right = even(share / count**0.5, samples, 1, count, rows), even(1.0, samples, 1, count, columns)
        return cls(Factored((rows, columns), left, right), even(2.0 * share, rows, columns))

    def gradients(self) -> Tensor:
        """[N, D], formed."""
        return (self.form.row[:, 0].mT @ self.form.col[:, 0]).flatten(1)

    def ours(self, wanted: Wanted) -> Tensor:
        """Counts of this package."""
        found = statistics.compute(self.form, self.theta, wanted, {})
        return next(iter((*found.hist1d.values(), *found.hist2d.values())))

    def by_torch(self) -> Tensor:
        """The joint histogram by the index of each element."""
        gradient, parameter = TWO
        one, other = _index(self.gradients(), gradient), _index(self.theta.flatten(), parameter)
        counts = torch.bincount((one * parameter.count + other).flatten(), minlength=gradient.count * parameter.count)
        return counts.view(gradient.count, parameter.count)

    def by_numpy(self) -> Tensor:
        """The joint histogram of all pairs."""
        g, (gradient, parameter) = self.gradients(), TWO
        thetas = self.theta.flatten().expand_as(g)
        given = (g.clamp(gradient.low, gradient.high), thetas.clamp(parameter.low, parameter.high))
        counts, _, _ = np.histogram2d(
            *(values.cpu().numpy().ravel() for values in given),
            bins=(gradient.count, parameter.count),
            range=((gradient.low, gradient.high), (parameter.low, parameter.high)),
        )
        return torch.from_numpy(counts.astype(np.int64))


def _index(values: Tensor, bins: Bins) -> Tensor:
    return ((values - bins.low) * (bins.count / (bins.high - bins.low))).long().clamp_(0, bins.count - 1)


def counted(what: str, share: float, clock: Clock, rounds: int, device: str) -> Row:
    """Milliseconds of each way, in turn."""
    data = Data.drawn(what, share, device, SIZES[what])
    ways: dict[str, Callable[[], Tensor]] = {
        "one": lambda: data.ours(Wanted(hist1d=(ONE,))),
        "two": lambda: data.ours(Wanted(hist2d=(TWO,))),
        "torch": data.by_torch,
        "numpy": data.by_numpy,
    }
    if what != "formed" or device != "cpu":
        del ways["numpy"]
    _agree(ways["two"](), ways["torch"]())
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seconds[name].append(clock.one(partial(_run, way)))
    found: Row = {f"{name}_ms": significant(1e3 * median(times)) for name, times in seconds.items()}
    return found | {"ratio": significant(median(seconds["torch"]) / median(seconds["two"]))}


def _run(way: Callable[[], Tensor]) -> None:
    way()


def _agree(one: Tensor, other: Tensor) -> None:
    """The same counts, but for elements that rounding puts on the other side of an edge: an index is less exact."""
    apart, all_of_them = int((one.cpu() - other.cpu()).abs().sum()), int(other.sum())
    if int(one.sum()) != all_of_them or apart > 1e-3 * all_of_them:
        raise ValueError(f"{apart} of {all_of_them} counts differ")
