"""Variational autoencoder on Fashion-MNIST."""

from cockpit.problems._base import Place, Problem, Splits, Variant
from cockpit.problems.data.batches import autoencoding
from cockpit.problems.data.mnist import fashion_mnist
from cockpit.problems.nets.vae import losses, vae


def data(place: Place, variant: Variant) -> Splits:
    """Pictures with themselves as targets."""
    return autoencoding(fashion_mnist(place, variant))


fmnist_vae = Problem(
    name="fmnist_vae",
    summary="variational autoencoder on Fashion-MNIST",
    model=vae,
    data=data,
    losses=losses,
    batch_size=64,
    epochs=100,
    target=92.97764997362836,
    paper="P5",
)
