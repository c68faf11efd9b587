"""VGG16 on ImageNet."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, convolutions, cross_entropy
from cockpit.problems.data.imagenet import imagenet
from cockpit.problems.nets.vgg import vgg

imagenet_vgg16 = Problem(
    name="imagenet_vgg16",
    summary="VGG16 on ImageNet",
    model=partial(vgg, depth=16, classes=1001),
    data=imagenet,
    losses=cross_entropy,
    accuracies=accuracies,
    l2=5e-4,
    regularised=convolutions,
)
