"""Variational autoencoder on MNIST."""

from cockpit.problems._base import Place, Problem, Splits, Variant
from cockpit.problems.data.batches import autoencoding
from cockpit.problems.data.mnist import mnist
from cockpit.problems.nets.vae import losses, vae


def data(place: Place, variant: Variant) -> Splits:
    """Pictures with themselves as targets."""
    return autoencoding(mnist(place, variant))


mnist_vae = Problem(
    name="mnist_vae",
    summary="variational autoencoder on MNIST",
    model=vae,
    data=data,
    losses=losses,
    batch_size=64,
    epochs=50,
    target=73.49819796869767,
    paper="P2",
)
