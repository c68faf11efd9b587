"""Three convolutions and three dense layers on SVHN."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.svhn import svhn
from cockpit.problems.nets.c3d3 import c3d3

svhn_3c3d = Problem(
    name="svhn_3c3d",
    summary="three convolutions and three dense layers on SVHN",
    model=partial(c3d3, classes=10),
    data=svhn,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=100,
    l2=0.002,
    paper="P12",
)
