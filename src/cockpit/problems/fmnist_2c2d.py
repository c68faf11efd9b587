"""Two convolutions and two dense layers on Fashion-MNIST."""

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.mnist import fashion_mnist
from cockpit.problems.nets.c2d2 import c2d2

fmnist_2c2d = Problem(
    name="fmnist_2c2d",
    summary="two convolutions and two dense layers on Fashion-MNIST",
    model=c2d2,
    data=fashion_mnist,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=100,
    target=0.9198093278634639,
    paper="P3",
)
