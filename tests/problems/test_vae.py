"""The variational autoencoder: shapes, and its loss against a formula written out."""

from __future__ import annotations

import math

import pytest
import torch

from cockpit.problems.mnist_vae import mnist_vae
from cockpit.problems.nets.vae import VAE, losses


def test_loss_is_squared_error_plus_divergence_of_each_picture() -> None:
    torch.manual_seed(0)
    pictures, outputs = torch.rand(3, 1, 28, 28), torch.rand(3, 1, 28, 28)
    mean, spread = torch.randn(3, 8), torch.randn(3, 8)
    for sample, found in enumerate(losses((outputs, mean, spread), pictures).tolist()):
        error = sum(
            (float(outputs[sample, 0, i, j]) - float(pictures[sample, 0, i, j])) ** 2
            for i in range(28)
            for j in range(28)
        )
        divergence = 0.0
        for m, s in zip(mean[sample].tolist(), spread[sample].tolist(), strict=True):
            variance = math.exp(s) ** 2  # KL of N(m, variance) from N(0, 1)
            divergence += 0.5 * (m**2 + variance - 1 - math.log(variance))
        assert found == pytest.approx(error + divergence, rel=1e-4)


def test_a_perfect_picture_with_a_standard_normal_code_costs_nothing() -> None:
    picture = torch.rand(2, 1, 28, 28)
    assert losses((picture, torch.zeros(2, 8), torch.zeros(2, 8)), picture).tolist() == [0.0, 0.0]


@torch.no_grad()
def test_shapes() -> None:
    model = mnist_vae.model(0)
    assert isinstance(model, VAE)
    pictures = torch.rand(2, 1, 28, 28)
    assert model.encoder(pictures).shape == (2, 7 * 7 * 64)
    reconstruction, mean, spread = model(pictures)
    assert (reconstruction.shape, mean.shape, spread.shape) == ((2, 1, 28, 28), (2, 8), (2, 8))
    assert float(reconstruction.min()) > 0
    assert float(reconstruction.max()) < 1


def test_the_code_is_drawn_in_evaluation_too() -> None:
    model = mnist_vae.model(0).eval()
    pictures = torch.rand(1, 1, 28, 28)
    with torch.no_grad():
        (first, mean, spread), (again, same_mean, same_spread) = model(pictures), model(pictures)
    assert torch.equal(mean, same_mean)
    assert torch.equal(spread, same_spread)
    assert not torch.equal(first, again)


def test_dropout_is_where_it_belongs() -> None:
    model = mnist_vae.model(0)
    assert isinstance(model, VAE)
    kinds = [type(layer).__name__ for layer in model.decoder]
    convolutions = [place for place, kind in enumerate(kinds) if kind == "ConvTranspose2dSame"]
    assert [kinds[place + 2] for place in convolutions] == ["Dropout", "Dropout", "Flatten"]
    assert [type(layer).__name__ for layer in model.encoder].count("Dropout") == 3
