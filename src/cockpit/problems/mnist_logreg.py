"""Logistic regression on MNIST."""

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.mnist import mnist
from cockpit.problems.nets.logreg import logreg

mnist_logreg = Problem(
    name="mnist_logreg",
    summary="logistic regression on MNIST",
    model=logreg,
    data=mnist,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=50,
    paper="P9",
)
