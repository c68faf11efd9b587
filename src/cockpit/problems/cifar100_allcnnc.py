"""All-CNN-C on CIFAR-100."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.cifar import cifar100
from cockpit.problems.nets.allcnnc import allcnnc

cifar100_allcnnc = Problem(
    name="cifar100_allcnnc",
    summary="All-CNN-C on CIFAR-100",
    model=partial(allcnnc, classes=100),
    data=cifar100,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=256,
    epochs=350,
    l2=5e-4,
    target=0.5256043511573971,
    paper="P6",
)
