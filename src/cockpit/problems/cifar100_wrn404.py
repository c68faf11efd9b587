"""Wide residual network 40-4 on CIFAR-100."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.cifar import cifar100
from cockpit.problems.nets.wrn import wrn

cifar100_wrn404 = Problem(
    name="cifar100_wrn404",
    summary="wide residual network 40-4 on CIFAR-100",
    model=partial(wrn, units=6, widening=4, classes=100),
    data=cifar100,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=160,
    l2=5e-4,
)
