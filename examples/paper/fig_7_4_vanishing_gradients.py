"""Figure 7.4: 3c3d with ReLU, and with sigmoids: alike over the whole net, degenerate layer by layer.

Both nets see the same standardised pictures at their first step. Only their weights are counted, no biases.
By default the pictures are drawn digits, with --full CIFAR-10.
"""

from dataclasses import replace

import torch
from sheet import options, photographs, save, verdict
from torch import nn

import cockpit
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import View, panel
from cockpit.problems import get
from cockpit.problems.data.augment import standardised

args = options(__doc__, "fig_7_4.png")
images, labels = photographs(args.seed, args.full)
images = standardised(images)


def first_step(activation: type[nn.Module]) -> Histogram:
    """Watch the first backward pass; return the counts of each weight's gradient elements."""
    model, loss_fn = get("cifar10_3c3d").model(args.seed), nn.CrossEntropyLoss()
    for place, layer in enumerate(model):
        if isinstance(layer, nn.ReLU):
            model[place] = activation()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    with cockpit.watch(model, optimizer, loss_fn, quantities=["GradHist1d"], every=1, run=False) as pit:
        loss_fn(model(images), labels).backward()
    found = pit.get_output()[0]["GradHist1d"]
    return Histogram(found.edges, {name: part for name, part in found.parts.items() if name.endswith("weight")})


def middle(histogram: Histogram) -> float:
    """Share of the elements in the two bins at 0."""
    return float(histogram.counts[49:51].sum() / histogram.counts.sum())


def show(histogram: Histogram, title: str):
    """The instrument for these counts."""
    source = Recorded([Record(0, "GradHist1d", Kind.HISTOGRAM, histogram)])
    return replace(panel([source], "hist1d", View(range="fixed")), title=title)


panels, whole, layers = [], {}, {}
for activation in (nn.ReLU, nn.Sigmoid):
    net, name = first_step(activation), activation.__name__
    each = {layer: Histogram(net.edges, {layer: part}) for layer, part in net.parts.items()}
    whole[name], layers[name] = middle(net), [middle(one) for one in each.values()]
    panels.append(show(net, f"{name}: network"))
    chosen = list(each)
    for place in (0, 2, 5):
        panels.append(show(each[chosen[place]], f"{name}: parameter {2 * place} ({chosen[place]})"))
    print(f"{name:8} share between -0.04 and 0.04: {whole[name]:.4f}; by layer", *(f"{x:.4f}" for x in layers[name]))

save(args.o, panels, "Gradient elements of two nets, over the network and by layer", columns=4, size=(190, 110))
apart, sigmoid = abs(whole["ReLU"] - whole["Sigmoid"]), min(layers["Sigmoid"][:-1])
low, high = min(layers["ReLU"][:-1]), max(layers["ReLU"][:-1])
verdict(
    {
        f"over the net the shares differ by at most 0.05: {apart:.3f}": apart <= 0.05,
        f"with sigmoids at least 0.999 in all but the last layer: {sigmoid:.5f}": sigmoid >= 0.999,
        f"with ReLU between 0.5 and 0.995 there: {low:.3f} to {high:.4f}": low >= 0.5 and high <= 0.995,
    },
    replaced={f"with ReLU between 0.5 and 0.99 there: {low:.3f} to {high:.4f}": low >= 0.5 and high <= 0.99},
)
