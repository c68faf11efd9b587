"""Wide residual network 16-4 on SVHN."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.svhn import svhn
from cockpit.problems.nets.wrn import wrn

svhn_wrn164 = Problem(
    name="svhn_wrn164",
    summary="wide residual network 16-4 on SVHN",
    model=partial(wrn, units=2, widening=4, classes=10),
    data=svhn,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=128,
    epochs=160,
    l2=5e-4,
    target=0.9501991843298437,
    paper="P7",
)
