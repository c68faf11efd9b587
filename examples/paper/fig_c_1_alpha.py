"""Figure C.1, a sketch: what Alpha means. A step that is too short, one to the valley floor, one too long.

The losses of eight samples and their slopes, at both ends of a step along a parabola of curvature 1: Alpha is fitted
to what is seen there. With --full it is the same.
"""

import torch
from sheet import BLUE, GREY, ORANGE, axis, chart, options, save, verdict
from torch import Tensor, nn

import cockpit

args = options(__doc__, "fig_c_1.png")
draws = torch.Generator().manual_seed(args.seed)
STEPS = {"Understepping": 0.3, "Minimizing": 1.0, "Overshooting": 2.0}  # learning rates: 1 / curvature is right


class Point(nn.Module):
    """The way from each sample's centre."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([-1.0]))

    def forward(self, centres: Tensor) -> Tensor:
        """Return theta - x, [N]."""
        return self.theta - centres


panels, alphas = [], []
for title, rate in STEPS.items():
    model, seen = Point(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with cockpit.watch(model, optimizer, quantities=["Alpha"], every=1, run=False) as pit:
        for _ in range(2):
            centres = 0.15 * torch.randn(8, generator=draws)
            away = model(centres)
            losses = 0.5 * away**2
            seen.append((model.theta.item(), away.detach(), losses.detach()))
            optimizer.zero_grad()
            pit.loss(losses).backward()
            optimizer.step()
    alpha = pit.history.series("Alpha")[0]
    alphas.append(alpha.value)
    (start, _, first), (end, _, _) = seen
    slope, bend = alpha.details["slope"], alpha.details["curvature"]  # over the step, whose length is 1
    times, base, length = torch.linspace(-2, 8, 300).tolist(), float(first.mean()), end - start
    fit = [{"x": start + t * length, "y": base + slope * t + bend * t**2} for t in times]
    dots, lines = [], []
    for end_place, (place, slopes, heights) in enumerate(seen):
        ends = [*zip(slopes.tolist(), heights.tolist(), [GREY] * 8, strict=True)]
        ends.append((float(slopes.mean()), float(heights.mean()), ORANGE))
        dots += [{"x": place, "y": height, "c": colour} for _, height, colour in ends]
        for n, (tilt, height, colour) in enumerate(ends):
            same = {"c": colour, "n": 10 * end_place + n}
            lines += [{"x": place + side, "y": height + side * tilt, **same} for side in (-0.12, 0.12)]
    x, y = axis("x", "parameter", domain=[-1.4, 1.6]), axis("y", "loss", domain=[-0.1, 0.9])
    colour = {"color": {"field": "c", "type": "nominal", "scale": None}}
    line, order = {"type": "line", "clip": True}, {"order": {"value": None}}
    layers = [
        {"data": {"name": "fit"}, "mark": line | {"color": BLUE}, "encoding": {"x": x, "y": y} | order},
        {"data": {"name": "lines"}, "mark": line, "encoding": {"x": x, "y": y} | colour | {"detail": {"field": "n"}}},
        {"data": {"name": "dots"}, "mark": {"type": "point", "size": 30}, "encoding": {"x": x, "y": y} | colour},
    ]
    panels.append(chart(f"{title}: Alpha {alpha.value:+.2f}", {"fit": fit, "lines": lines, "dots": dots}, layers))

save(args.o, panels, "Alpha: where a step ends on the parabola along it")
verdict(
    {
        f"a step of 0.3 / curvature has an Alpha below -0.4: {alphas[0]:+.2f}": alphas[0] < -0.4,
        f"one of 1 / curvature has an Alpha within 0.4 of 0: {alphas[1]:+.2f}": abs(alphas[1]) < 0.4,
        f"one of 2 / curvature has an Alpha above +0.4: {alphas[2]:+.2f}": alphas[2] > 0.4,
    }
)
