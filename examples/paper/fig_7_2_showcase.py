"""Figures 7.2 and C.12: all instruments on a deep net, and on two convex problems, with a cyclical learning rate.

By default All-CNN-C of a third of its width and logistic regression, both on the digits that the product draws, and
the noisy quadratic (P1). With --full All-CNN-C on CIFAR-100 (P6), logistic regression on MNIST (P9), and P1.
"""

from dataclasses import replace
from math import log10

import numpy as np
import torch
from sheet import options, save, verdict
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

import cockpit
from cockpit.panels import View, deck
from cockpit.problems import Variant, get
from cockpit.problems.data.fetch import default_place
from cockpit.problems.nets.allcnnc import allcnnc
from cockpit.problems.nets.logreg import logreg
from cockpit.quantities import HessTrace, TICDiag
from cockpit.utils.schedules import logarithmic

args = options(__doc__, "fig_7_2.png")
deep = replace(get("digits"), model=lambda seed: allcnnc(seed, 10, 1, 32), epochs=10)
convex = replace(get("digits"), model=lambda seed: logreg(seed, 144))
deep, convex = (get("cifar100_allcnnc"), get("mnist_logreg")) if args.full else (deep, convex)


def train(problem, name: str, rate: float, cycle: int, tracked: int):
    """Train with SGD, whose rate falls to 0 in so many epochs, then in twice as many; return the run."""
    model, draws, step = problem.model(args.seed), torch.Generator().manual_seed(args.seed), 0
    torch.manual_seed(args.seed)  # of dropout
    data = problem.data(default_place(), Variant()).train
    many, known = data.steps(problem.batch_size) * problem.epochs, next(data.epoch(512))
    seen = logarithmic(0, log10(many - 1), steps=tracked)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    rates = CosineAnnealingWarmRestarts(optimizer, cycle * many // problem.epochs, 2)
    chosen = [HessTrace(seen, curvature="ggn_mc"), TICDiag(seen, curvature="ggn_mc")]
    chosen += [one for one in cockpit.configuration("full", seen) if one.name not in ("HessTrace", "TICDiag")]
    with cockpit.watch(model, optimizer, quantities=chosen, every=seen, run=False, name=name) as pit:
        for _ in range(problem.epochs):
            for inputs, labels in data.epoch(problem.batch_size, draws):
                if seen(step):
                    with torch.no_grad():
                        outputs = model.eval()(known[0])
                    pit.log(**{"loss on 512 samples": float(problem.losses(outputs, known[1]).mean())})
                    if problem.accuracies:
                        pit.log(accuracy=float(problem.accuracies(outputs, known[1]).mean()))
                optimizer.zero_grad()
                pit.loss(problem.losses(model.train()(inputs), labels)).backward()
                optimizer.step()
                rates.step()
                step += 1
    return pit.source()


def smooth(run, name: str) -> np.ndarray:
    """A quantity at each tracked step, the median of five neighbours."""
    found = np.pad(run.scalar(name).values, 2, mode="edge")
    return np.median([found[place : len(found) - 4 + place] for place in range(5)], axis=0)


ratios, net = [], train(deep, "All-CNN-C", 0.1, 12 if args.full else 6, 300 if args.full else 22)
quadratic = train(get("quadratic_deep"), "noisy quadratic", 0.002, 7, 300 if args.full else 50)
regression = train(convex, "logistic regression", 0.1, 4, 300 if args.full else 50)
for run, end in ((quadratic, "_quadratic"), (regression, "_regression"), (net, "")):
    panels = [panel for panel in deck([run], View(axis="log")) if panel.group != "more"]
    save(args.o.with_stem(args.o.stem + end), panels, run.name, columns=None, size=None)
    tests, norms = smooth(run, "NormTest")[[0, -1]], smooth(run, "GradNorm")[[0, -1]]
    ratios.append(norms[0] / norms[1])
    print(f"{run.name:20} gradient norm {norms[0]:.3g} -> {norms[1]:.3g}, NormTest {tests[0]:.3g} -> {tests[1]:.3g}")

loss, far = net.scalar("loss on 512 samples").values, net.scalar("Distance")
spans = [(a, b) for b in range(len(loss)) for a in range(b) if np.ptp(loss[a : b + 1]) <= 0.01 * loss[a]]
first, last = max(spans, key=lambda span: span[1] - span[0])
flat, norms = (smooth(net, name)[first : last + 1] for name in ("HessMaxEV", "GradNorm"))
moved, fall = (far.values[last] - far.values[first]) / far.values[-1], 1 - flat[-1] / flat[0]
plateau, spread = f"on the plateau, steps {far.steps[first]} to {far.steps[last]}", norms.max() / norms.min()
claims = {
    f"{plateau}, the loss stays within 1%, the largest eigenvalue falls by a third: {fall:.0%}": fall >= 1 / 3,
    f"there the gradient norm stays within 2 x: {spread:.2f}": spread <= 2,
    f"there the distance moves by less than 20% of its last value: {moved:.1%}": moved < 0.2,
    f"gradient norms fall, by 5 or more on the quadratic: {ratios[0]:.1f}": ratios[0] >= 5,
    f"by 3 or more on logistic regression: {ratios[1]:.1f}": ratios[1] >= 3,
    f"and rise on the deep net: by {1 / ratios[2]:.1f}": ratios[2] < 1,
}
paper = {f"there the gradient norm stays within 1.5 x: {spread:.2f}": spread <= 1.5}
verdict(claims, paper | {f"there the distance moves by less than 2%: {moved:.1%}": moved < 0.02})
