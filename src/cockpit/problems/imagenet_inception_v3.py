"""Inception-v3 on ImageNet, images resized to 299 x 299."""

from functools import partial

from cockpit.problems._base import Place, Problem, Splits, Variant
from cockpit.problems._criteria import convolutions
from cockpit.problems.data.batches import resized
from cockpit.problems.data.imagenet import imagenet
from cockpit.problems.nets.inception_v3 import accuracies, inception_v3, losses


def data(place: Place, variant: Variant) -> Splits:
    """Pictures of 299 x 299."""
    return resized(imagenet(place, variant), 299)


imagenet_inception_v3 = Problem(
    name="imagenet_inception_v3",
    summary="Inception-v3 on ImageNet, images resized to 299 x 299",
    model=partial(inception_v3, classes=1001),
    data=data,
    losses=losses,
    accuracies=accuracies,
    l2=5e-4,
    regularised=convolutions,
)
