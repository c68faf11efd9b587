"""Figures 7.3 and C.3: the same pictures as numbers from 0 to 1, and from 0 to 255.

A net sees both at its first step, before any update. The pictures look alike; the gradients of the samples do not.
By default the pictures are drawn digits. With --full they are CIFAR-10, for VGG16 enlarged: a stand-in for ImageNet.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from sheet import chart, options, photographs, save, verdict
from torch import nn

import cockpit
from cockpit.engine.observation import Observation
from cockpit.panels import panel
from cockpit.problems import get
from cockpit.quantities.quantity import SingleStepQuantity

args = options(__doc__, "fig_7_3.png")


class Deviation(SingleStepQuantity):
    """Standard deviation of all elements of all samples' gradients."""

    needs = frozenset({"sq_norm", "gradient"})

    def measure(self, step: Observation) -> float:
        """Return the root of the mean square minus the squared mean."""
        mean = torch.cat([part.flatten() for part in step.gradient.values()])
        return (step.sum_of_squares() / step.batch_size / len(mean) - float(mean.mean()) ** 2) ** 0.5


def first_step(name: str, inputs: torch.Tensor, title: str) -> tuple:
    """Watch the first backward pass of a net; return the histogram, its outermost share, and the deviation."""
    model, loss_fn = get(name).model(args.seed).eval(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    with cockpit.watch(model, optimizer, loss_fn, quantities=["GradHist1d", Deviation], every=1, run=False) as pit:
        loss_fn(model(inputs), labels[: len(inputs)]).backward()
    counts = pit.get_output()[0]["GradHist1d"].counts
    shown = replace(panel([pit.source()], "hist1d"), title=title)
    return shown, (counts[0] + counts[-1]) / counts.sum(), pit.get_output()[0]["Deviation"]


def look(inputs: torch.Tensor, title: str):
    """The first four pictures, or the first alone, scaled to their range as every viewer does it."""
    small = F.interpolate(inputs[:4], size=32)
    rows = torch.cat([torch.cat([*row], 2) for row in small.split(2)], 1).permute(1, 2, 0)
    rows = (255 * rows / rows.max()).int().tolist()
    place = {way: {"field": way, "type": "ordinal", "axis": None, "scale": {"padding": 0}} for way in "xy"}
    place |= {key: {"field": "c", "type": "nominal", "scale": None} for key in ("fill", "stroke")}
    pixels = [{"x": x, "y": y, "c": f"rgb{tuple(c)}"} for y, row in enumerate(rows) for x, c in enumerate(row)]
    layer = {"data": {"name": "pixels"}, "mark": {"type": "rect", "strokeWidth": 1}, "encoding": place}
    return chart(title, {"pixels": pixels}, [layer])


images, labels = photographs(args.seed, args.full)
large = F.interpolate(images[:1], size=224, mode="bilinear")
panels, growth, outermost = [], {}, 0.0
for net, raw in {"cifar10_3c3d": images, "imagenet_vgg16": large}.items():
    short = net.split("_")[1]
    scaled, _, small = first_step(net, raw / 255, f"{short}, gradient elements")
    unscaled, beyond, big = first_step(net, raw, f"{short}, gradient elements")
    panels += [look(raw / 255, "(a) 0 to 1"), scaled, look(raw, "(b) 0 to 255"), unscaled]
    growth[short], outermost = big / small, outermost or beyond
    print(f"{short:9} standard deviation of elements {small:.3g} -> {big:.3g}; beyond ±2: {beyond:.1%}")

save(args.o, panels, "Same pictures, different gradients", columns=4, size=(170, 150))
verdict(
    {
        f"on 3c3d the deviation grows by 200 to 500: {growth['3c3d']:.0f}": 200 <= growth["3c3d"] <= 500,
        f"the outermost bins show it, 1% or more: {outermost:.1%}": outermost >= 0.01,
        f"on VGG16 it grows by less: {growth['vgg16']:.0f}": growth["vgg16"] < growth["3c3d"],
    }
)
