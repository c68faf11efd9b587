"""Three convolutions and three dense layers on CIFAR-100."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.cifar import cifar100
from cockpit.problems.nets.c3d3 import c3d3

cifar100_3c3d = Problem(
    name="cifar100_3c3d",
    summary="three convolutions and three dense layers on CIFAR-100",
    model=partial(c3d3, classes=100),
    data=cifar100,
    losses=cross_entropy,
    accuracies=accuracies,
    l2=0.002,
)
