"""A residual perceptron for tables of numbers (Gorishniy et al., 2021, call it ResNet)."""

from torch import Tensor, nn

from cockpit.problems.nets.init import seeded


class Residual(nn.Module):
    """Normalisation and two linear layers, added to their input."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Map [N, width] to the same shape."""
        outputs: Tensor = inputs + self.layers(inputs)
        return outputs


def tabular(
    seed: int, features: int, classes: int, width: int = 128, blocks: int = 3, dropout: float = 0.1
) -> nn.Module:
    """A linear layer, residual blocks, and a normalised linear head; initialised as torch does it."""
    with seeded(seed):
        return nn.Sequential(
            nn.Linear(features, width),
            *(Residual(width, dropout) for _ in range(blocks)),
            nn.LayerNorm(width),
            nn.ReLU(),
            nn.Linear(width, classes),
        )
