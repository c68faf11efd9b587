"""A multi-layer perceptron of 784, 1000, 500, 100 and 10 units."""

from torch import nn

from cockpit.problems.nets.init import initialise, seeded, truncated_normal


def mlp(seed: int) -> nn.Module:
    """Four linear layers with ReLU between."""
    with seeded(seed):
        model = nn.Sequential(
            nn.Flatten(),
            nn.Linear(784, 1000),
            nn.ReLU(),
            nn.Linear(1000, 500),
            nn.ReLU(),
            nn.Linear(500, 100),
            nn.ReLU(),
            nn.Linear(100, 10),
        )
        initialise(model, truncated_normal(0.03))
    return model
