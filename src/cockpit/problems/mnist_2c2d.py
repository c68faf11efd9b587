"""Two convolutions and two dense layers on MNIST."""

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.mnist import mnist
from cockpit.problems.nets.c2d2 import c2d2

mnist_2c2d = Problem(
    name="mnist_2c2d",
    summary="two convolutions and two dense layers on MNIST",
    model=c2d2,
    data=mnist,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=100,
)
