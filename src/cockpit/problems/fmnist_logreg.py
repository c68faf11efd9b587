"""Logistic regression on Fashion-MNIST."""

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.mnist import fashion_mnist
from cockpit.problems.nets.logreg import logreg

fmnist_logreg = Problem(
    name="fmnist_logreg",
    summary="logistic regression on Fashion-MNIST",
    model=logreg,
    data=fashion_mnist,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=50,
)
