"""ResNet-18 on CIFAR-10."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.cifar import cifar10
from cockpit.problems.nets.resnet18 import resnet18

cifar10_resnet18 = Problem(
    name="cifar10_resnet18",
    summary="ResNet-18 on CIFAR-10",
    model=partial(resnet18, classes=10),
    data=cifar10,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=100,
    l2=5e-4,
)
