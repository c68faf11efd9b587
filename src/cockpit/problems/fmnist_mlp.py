"""Multi-layer perceptron with four layers on Fashion-MNIST."""

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.mnist import fashion_mnist
from cockpit.problems.nets.mlp import mlp

fmnist_mlp = Problem(
    name="fmnist_mlp",
    summary="multi-layer perceptron with four layers on Fashion-MNIST",
    model=mlp,
    data=fashion_mnist,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=100,
    paper="P11",
)
