"""A variational autoencoder (Kingma and Welling, 2014) for pictures of 28 x 28."""

import torch
from torch import Tensor, nn

from cockpit.problems.nets.init import glorot_uniform, initialise, seeded
from cockpit.problems.nets.same import Conv2dSame, ConvTranspose2dSame

LATENT = 8
SLOPE = 0.3  # of the leaky ReLU
Outputs = tuple[Tensor, Tensor, Tensor]  # reconstruction, mean and log standard deviation of the latent variable


class VAE(nn.Module):
    """Convolutions to a latent variable of 8 dimensions, and transposed ones back."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(Conv2dSame(1, 64, 4, 2), nn.LeakyReLU(SLOPE), nn.Dropout(0.2)),
            *(Conv2dSame(64, 64, 4, 2), nn.LeakyReLU(SLOPE), nn.Dropout(0.2)),
            *(Conv2dSame(64, 64, 4, 1), nn.LeakyReLU(SLOPE), nn.Dropout(0.2)),
            nn.Flatten(),
        )
        self.mean = nn.Linear(7 * 7 * 64, LATENT)
        self.spread = nn.Linear(7 * 7 * 64, LATENT)
        self.decoder = nn.Sequential(
            *(nn.Linear(LATENT, 24), nn.LeakyReLU(SLOPE)),
            *(nn.Linear(24, 49), nn.LeakyReLU(SLOPE)),
            nn.Unflatten(1, (1, 7, 7)),
            *(ConvTranspose2dSame(1, 64, 4, 2), nn.ReLU(), nn.Dropout(0.2)),
            *(ConvTranspose2dSame(64, 64, 4, 1), nn.ReLU(), nn.Dropout(0.2)),
            *(ConvTranspose2dSame(64, 64, 4, 1), nn.ReLU()),
            nn.Flatten(),
            *(nn.Linear(14 * 14 * 64, 784), nn.Sigmoid()),
            nn.Unflatten(1, (1, 28, 28)),
        )

    def forward(self, images: Tensor) -> Outputs:
        """Encode [N, 1, 28, 28], draw a latent variable for each, in evaluation too, and decode it."""
        code = self.encoder(images)
        mean, spread = self.mean(code), 0.5 * self.spread(code)
        latent = mean + torch.randn_like(mean) * spread.exp()
        return self.decoder(latent), mean, spread


def vae(seed: int) -> nn.Module:
    """Build the autoencoder."""
    with seeded(seed):
        model = VAE()
        initialise(model, glorot_uniform)
    return model


def losses(outputs: Outputs, images: Tensor) -> Tensor:
    """Squared error of each picture plus the divergence of its latent variable from a standard normal one, [N]."""
    reconstruction, mean, spread = outputs
    error = (reconstruction - images).square().flatten(1).sum(1)
    divergence = -0.5 * (1 + 2 * spread - mean.square() - (2 * spread).exp()).sum(1)
    return error + divergence
