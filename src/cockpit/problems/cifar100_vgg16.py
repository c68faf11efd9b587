"""VGG16 on CIFAR-100, images resized to 224 x 224."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems._criteria import accuracies, convolutions, cross_entropy
from cockpit.problems.data.cifar import cifar100
from cockpit.problems.data.images import of_size
from cockpit.problems.nets.vgg import vgg

cifar100_vgg16 = Problem(
    name="cifar100_vgg16",
    summary="VGG16 on CIFAR-100, images resized to 224 x 224",
    model=partial(vgg, depth=16, classes=100),
    data=partial(of_size, cifar100, 224),
    losses=cross_entropy,
    accuracies=accuracies,
    l2=5e-4,
    regularised=convolutions,
)
