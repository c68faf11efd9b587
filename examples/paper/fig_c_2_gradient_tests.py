"""Figure C.2, a sketch: what the gradient tests mean. Where the gradients of mini-batches lie, and what one batch says.

Linear regression with two weights. Left: the gradients of 400 mini-batches around that of all data, which points
upwards and has length 1. Right: the instrument, which sees one mini-batch at a time. With --full it is the same.
"""

from dataclasses import replace
from statistics import median

import torch
from sheet import GREY, LIGHT, ORANGE, axis, chart, options, save, verdict
from torch import nn

import cockpit
from cockpit.panels import panel

args = options(__doc__, "fig_c_2.png")
draws = torch.Generator().manual_seed(args.seed)
x = torch.randn(4000, 2, generator=draws) @ torch.tensor([[1.0, 0.6], [0.0, 0.8]])
y = x @ torch.tensor([[1.0], [-0.5]]) + 2 * torch.randn(4000, 1, generator=draws)
model, loss_fn = nn.Linear(2, 1, bias=False), nn.MSELoss()
nn.init.zeros_(model.weight)


def gradient(rows: torch.Tensor) -> torch.Tensor:
    """The gradient of the loss on these samples."""
    return torch.autograd.grad(loss_fn(model(x[rows]), y[rows]), model.weight)[0][0]


whole = gradient(torch.arange(len(x)))
up = whole / whole.norm()
across = torch.stack([-up[1], up[0]])
batches = torch.randint(len(x), (400, 128), generator=draws)
away = torch.stack([gradient(rows) - whole for rows in batches]) / whole.norm()
squares = {"NormTest": away.square().sum(1), "InnerTest": (away @ up).square(), "OrthoTest": (away @ across).square()}
true = {name: float(each.mean().sqrt()) for name, each in squares.items()}

optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # stay where we are
with cockpit.watch(model, optimizer, loss_fn, quantities=list(true), every=1, run=False) as pit:
    for rows in batches[:100]:
        optimizer.zero_grad()
        loss_fn(model(x[rows]), y[rows]).backward()
        optimizer.step()
said = {name: median(record.value for record in pit.history.series(name)) for name in true}
for name in true:
    print(f"{name:9} scatter of 400 batches {true[name]:.3f}; median of 100 measurements {said[name]:.3f}")
gap = max(
    abs(values["NormTest"] ** 2 / (values["InnerTest"] ** 2 + values["OrthoTest"] ** 2) - 1)
    for values in pit.get_output().values()
)

turn = torch.linspace(0, 6.3, 100)
disc = [{"x": true["NormTest"] * float(t.cos()), "y": true["NormTest"] * float(t.sin())} for t in turn]
bands = [{"x": -2, "x2": 2, "y": -true["InnerTest"], "y2": true["InnerTest"], "c": LIGHT}]
bands.append({"x": -true["OrthoTest"], "x2": true["OrthoTest"], "y": -1.5, "y2": 1.5, "c": GREY})
dots = [{"x": float(one @ across), "y": float(one @ up)} for one in away]
wide, high = axis("x", "across the gradient", domain=[-2, 2]), axis("y", "along the gradient", domain=[-1.5, 1.5])
place, colour = {"x": wide, "y": high}, {"color": {"field": "c", "type": "nominal", "scale": None}}
ring = {"type": "line", "color": ORANGE}
band = {"mark": {"type": "rect", "opacity": 0.2}, "encoding": place | {"x2": {"field": "x2"}, "y2": {"field": "y2"}}}
layers = [
    {"data": {"name": "bands"}, **band, "encoding": band["encoding"] | colour},
    {
        "data": {"name": "disc"},
        "mark": {"type": "line", "color": ORANGE},
        "encoding": place | {"order": {"value": None}},
    },
    {"data": {"name": "dots"}, "mark": {"type": "point", "size": 6, "color": GREY}, "encoding": place},
    {"data": {"name": "arrow"}, "mark": {"type": "line", "color": "black"}, "encoding": place},
    {"data": {"name": "tip"}, "mark": {"type": "point", "shape": "triangle-up", "size": 60}, "encoding": place},
]
arrow = {"arrow": [{"x": 0, "y": -1}, {"x": 0, "y": 0}], "tip": [{"x": 0, "y": 0}]}
rows = {"bands": bands, "disc": disc, "dots": dots, **arrow}
left = chart("(a) Gradients of mini-batches", rows, layers, "disc: norm test · bands: inner and ortho test")
right = replace(panel([pit.source()], "tests"), title="(b) The instrument, at one mini-batch")
save(args.o, [left, right], "The gradient tests: how far mini-batches scatter", columns=2, size=(320, 200))
apart = max(abs(said[name] / true[name] - 1) for name in true)
claims = {f"what single batches say is within 20% of the scatter: {apart:.0%}": apart <= 0.2}
verdict(claims | {f"NormTest² = InnerTest² + OrthoTest², to {gap:.0e}": gap < 1e-3})
