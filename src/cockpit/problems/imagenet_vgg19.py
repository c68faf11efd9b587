"""VGG19 on ImageNet."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, convolutions, cross_entropy
from cockpit.problems.data.imagenet import imagenet
from cockpit.problems.nets.vgg import vgg

imagenet_vgg19 = Problem(
    name="imagenet_vgg19",
    summary="VGG19 on ImageNet",
    model=partial(vgg, depth=19, classes=1001),
    data=imagenet,
    losses=cross_entropy,
    accuracies=accuracies,
    l2=5e-4,
    regularised=convolutions,
)
