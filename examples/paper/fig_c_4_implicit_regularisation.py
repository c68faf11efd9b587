"""Figure C.4: the noise of SGD lowers the curvature long after the loss has settled; GD without noise does not.

The net has two weights, f = w2 w1 x, and 100 points around y = 1.4 x. GD takes all points at each step, SGD 95 of them,
drawn without replacement. 10,000 steps of learning rate 0.1 from (0.1, 1.7); with --full 100,000, as in the paper.
"""

import torch
from sheet import BLUE, ORANGE, options, save, verdict
from torch import nn

import cockpit
from cockpit.panels import View, panel
from cockpit.quantities import HessMaxEV, Loss
from cockpit.utils.schedules import logarithmic

args = options(__doc__, "fig_c_4.png")
decades, points = (5 if args.full else 4), 100
draws = torch.Generator().manual_seed(args.seed)
x = torch.randn(points, 1, generator=draws)
y = 1.4 * x + torch.randn(points, 1, generator=draws)
loss_fn = nn.MSELoss()


def net() -> nn.Sequential:
    """Two linear layers of one unit."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    nn.init.constant_(model[0].weight, 0.1)
    nn.init.constant_(model[1].weight, 1.7)
    return model


def train(model: nn.Module, name: str, taken: int):
    """Train with so many of the points at each step; watch 200 steps, evenly on a logarithmic axis."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = logarithmic(0, decades, steps=200)
    chosen = [Loss(seen), HessMaxEV(seen)]
    with cockpit.watch(model, optimizer, loss_fn, quantities=chosen, every=seen, run=False, name=name) as pit:
        for _ in range(10**decades):
            batch = torch.randperm(points, generator=draws)[:taken] if taken < points else slice(None)
            optimizer.zero_grad()
            loss_fn(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return pit.source()


def on_all_data(model: nn.Module) -> tuple[float, float]:
    """Loss and largest eigenvalue."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cockpit.watch(model, optimizer, loss_fn, quantities=["Loss", "HessMaxEV"], every=1, run=False) as pit:
        loss_fn(model(x), y).backward()
    return pit.get_output()[0]["Loss"], pit.get_output()[0]["HessMaxEV"]


sgd, gd = net(), net()
runs = [train(sgd, "SGD", 95), train(gd, "GD", points)]
(loss, sharpness), (gd_loss, gd_sharpness) = on_all_data(sgd), on_all_data(gd)
late = runs[1].scalar("HessMaxEV")
late = late.values[late.steps >= 100]
print(f"loss on all data:      SGD {loss:.4f}, GD {gd_loss:.4f}")
print(f"largest eigenvalue:    SGD {sharpness:.3f}, GD {gd_sharpness:.3f}")

view = View(axis="log")
panels = [panel(runs, "loss", view), panel(runs, "eigenvalue", view)]
save(args.o, panels, "The noise of SGD lowers the curvature", [("SGD", BLUE), ("GD", ORANGE)], 2)
apart, below, still = loss / gd_loss - 1, 1 - sharpness / gd_sharpness, late.max() / late.min() - 1
verdict(
    {
        f"the losses on all data differ by at most 1%: {abs(apart):.2%}": abs(apart) <= 0.01,
        f"SGD's largest eigenvalue is 5% or more below GD's: {below:.1%}": below >= 0.05,
        f"GD's stays within 0.1% after step 100: {still:.3%}": still <= 0.001,
    }
)
