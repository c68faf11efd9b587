"""Inception-v3 on ImageNet, images resized to 299 x 299."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import convolutions
from cockpit.problems.data.imagenet import imagenet
from cockpit.problems.data.images import of_size
from cockpit.problems.nets.inception_v3 import accuracies, inception_v3, losses

imagenet_inception_v3 = Problem(
    name="imagenet_inception_v3",
    summary="Inception-v3 on ImageNet, images resized to 299 x 299",
    model=partial(inception_v3, classes=1001),
    data=partial(of_size, imagenet, 299),
    losses=losses,
    accuracies=accuracies,
    l2=5e-4,
    regularised=convolutions,
)
