"""Variational autoencoder on MNIST."""

from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems.data.images import as_targets
from cockpit.problems.data.mnist import mnist
from cockpit.problems.nets.vae import losses, vae

mnist_vae = Problem(
    name="mnist_vae",
    summary="variational autoencoder on MNIST",
    model=vae,
    data=partial(as_targets, mnist),
    losses=losses,
    batch_size=64,
    epochs=50,
    target=73.49819796869767,
    paper="P2",
)
