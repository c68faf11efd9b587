"""Variational autoencoder on Fashion-MNIST."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems.data.images import as_targets
from cockpit.problems.data.mnist import fashion_mnist
from cockpit.problems.nets.vae import losses, vae

fmnist_vae = Problem(
    name="fmnist_vae",
    summary="variational autoencoder on Fashion-MNIST",
    model=vae,
    data=partial(as_targets, fashion_mnist),
    losses=losses,
    batch_size=64,
    epochs=100,
    target=92.97764997362836,
    paper="P5",
)
