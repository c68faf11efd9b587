"""Figure 7.1: two runs with the same loss curve, one too short in its steps, one too long.

Both descend a noisy, rotated valley of curvatures 0.5 and 10 from the same point. "long" has the learning rate 0.2:
each step ends on the opposite wall. "short" takes, at each step, the smallest rate that gives the same loss on all
data. With --full it is the same: the paper's experiment is this small.
"""

import torch
from sheet import BLUE, GREY, ORANGE, axis, chart, options, save, verdict
from torch import Tensor, nn

import cockpit
from cockpit.panels import panel

args = options(__doc__, "fig_7_1.png")
STEPS, RATE, CURVATURES = 20, 0.2, torch.tensor([0.5, 10.0])
along, across = torch.tensor([0.8, 0.6]), torch.tensor([-0.6, 0.8])  # the valley
hessian = CURVATURES[0] * along.outer(along) + CURVATURES[1] * across.outer(across)
centres = 0.05 * torch.randn(1000, 2, generator=torch.Generator().manual_seed(args.seed))


class Valley(nn.Module):
    """The way from each sample's centre."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(-1.5 * along - 0.4 * across)

    def forward(self, samples: Tensor) -> Tensor:
        """Return theta - x, [N, 2]."""
        return self.theta - samples


def losses(away: Tensor) -> Tensor:
    """Half the squared distance to each centre, measured by the Hessian, [N]."""
    return 0.5 * (away @ hessian * away).sum(1)


def smallest_rate(theta: Tensor, fall: float) -> float:
    """The rate at which the loss on all data falls by so much; where it cannot, that of its minimum."""
    downhill = float(theta.grad @ hessian @ (theta.detach() - centres.mean(0)))
    bend = float(theta.grad @ hessian @ theta.grad)
    return (downhill - max(downhill**2 - 2 * bend * fall, 0) ** 0.5) / bend


def descend(name: str, goals: list[float]):
    """Take the steps, with goals so that these are the losses; return the run, where it was, and the losses."""
    model, draws = Valley(), torch.Generator().manual_seed(args.seed)
    optimizer, path, heights = torch.optim.SGD(model.parameters(), lr=RATE), [], []
    with cockpit.watch(model, optimizer, quantities=["Alpha"], every=1, run=False, name=name) as pit:
        for step in range(STEPS + 1):
            path.append(model.theta.tolist())
            heights.append(float(losses(model.theta.detach() - centres).mean()))
            pit.log(**{"loss on all data": heights[-1]})
            optimizer.zero_grad()
            pit.loss(losses(model(centres[torch.randperm(1000, generator=draws)[:128]]))).backward()
            for goal in goals[step + 1 : step + 2]:
                optimizer.param_groups[0]["lr"] = smallest_rate(model.theta, heights[-1] - goal)
            optimizer.step()
    return pit.source(), path, heights


long, walls, heights = descend("long", [])
short, slope, same = descend("short", heights)
apart = max(abs(a - b) for a, b in zip(heights, same, strict=True)) / heights[0]
alphas = [float(torch.tensor(run.scalar("Alpha").defined().values).median()) for run in (short, long)]

turns = [(level, torch.tensor(place / 14)) for level in (0.05, 0.2, 0.5, 1, 2, 4) for place in range(89)]
points = [(level, (2 * level / CURVATURES).sqrt() * torch.stack([turn.cos(), turn.sin()])) for level, turn in turns]
rings = [{"level": level, "x": float(a * 0.8 - b * 0.6), "y": float(a * 0.6 + b * 0.8)} for level, (a, b) in points]
steps = [{"x": x, "y": y, "c": colour} for way, colour in ((walls, BLUE), (slope, ORANGE)) for x, y in way]
place = {"x": axis("x", "θ₁", domain=[-1.8, 0.6]), "y": axis("y", "θ₂", domain=[-1.6, 0.6]), "order": {"value": None}}
line = {"type": "line", "clip": True, "strokeWidth": 1}
colour = {"color": {"field": "c", "type": "nominal", "scale": None}}
landscape = [
    {"data": {"name": "rings"}, "mark": line | {"color": GREY}, "encoding": place | {"detail": {"field": "level"}}},
    {"data": {"name": "steps"}, "mark": line | {"point": {"size": 14}}, "encoding": place | colour},
]
panels = [panel([long, short], "loss"), chart("Loss landscape", {"rings": rings, "steps": steps}, landscape)]
panels.append(panel([long, short], "alpha"))
save(args.o, panels, "Same loss, different steps", [("long", BLUE), ("short", ORANGE)])
verdict(
    {
        f"the losses on all data differ by at most 5% of the first: {apart:.2%}": apart <= 0.05,
        f"the median Alpha of short steps is -0.4 or less: {alphas[0]:+.2f}": alphas[0] <= -0.4,
        f"the median Alpha of long steps is +0.4 or more: {alphas[1]:+.2f}": alphas[1] >= 0.4,
    }
)
