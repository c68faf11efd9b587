"""Three convolutions and three dense layers on CIFAR-10."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.cifar import cifar10
from cockpit.problems.nets.c3d3 import c3d3

cifar10_3c3d = Problem(
    name="cifar10_3c3d",
    summary="three convolutions and three dense layers on CIFAR-10",
    model=partial(c3d3, classes=10),
    data=cifar10,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=100,
    l2=0.002,
    target=0.8283307079578206,
    paper="P4",
)
