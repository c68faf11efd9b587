"""Multi-layer perceptron with four layers on MNIST."""

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.mnist import mnist
from cockpit.problems.nets.mlp import mlp

mnist_mlp = Problem(
    name="mnist_mlp",
    summary="multi-layer perceptron with four layers on MNIST",
    model=mlp,
    data=mnist,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=100,
    paper="P10",
)
