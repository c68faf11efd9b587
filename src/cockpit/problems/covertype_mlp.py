"""A residual perceptron on the table of forest covers."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.tabular import covertype
from cockpit.problems.nets.tabular import tabular

covertype_mlp = Problem(
    name="covertype_mlp",
    summary="residual multi-layer perceptron on Covertype",
    model=partial(tabular, features=54, classes=7),
    data=covertype,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=512,
    epochs=20,
)
