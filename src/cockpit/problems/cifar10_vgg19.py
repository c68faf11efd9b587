"""VGG19 on CIFAR-10, images resized to 224 x 224."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, convolutions, cross_entropy
from cockpit.problems.data.cifar import cifar10
from cockpit.problems.data.images import of_size
from cockpit.problems.nets.vgg import vgg

cifar10_vgg19 = Problem(
    name="cifar10_vgg19",
    summary="VGG19 on CIFAR-10, images resized to 224 x 224",
    model=partial(vgg, depth=19, classes=10),
    data=partial(of_size, cifar10, 224),
    losses=cross_entropy,
    accuracies=accuracies,
    l2=5e-4,
    regularised=convolutions,
)
