"""A small GPT (Radford et al., 2019): a transformer that predicts the next token from those before it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cockpit.problems.nets.init import seeded

STD = 0.02


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.expand = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map [N, T, width] to the same shape; a position reads itself and those before it."""
        queries, keys, values = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.expand(inputs).chunk(3, dim=2)
        )
        read = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        outputs: Tensor = self.project(read.transpose(1, 2).flatten(2))
        return outputs


class Block(nn.Module):
    """Attention and a perceptron of two layers, each normalised before and added to its input."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads), nn.Dropout(dropout))
        self.perceptron = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Map [N, T, width] to the same shape."""
        middle = inputs + self.attention(inputs)
        outputs: Tensor = middle + self.perceptron(middle)
        return outputs


class GPT(nn.Module):
    """Embeddings of token and position, blocks, and logits by the token embedding again."""

    def __init__(self, vocabulary: int, window: int, layers: int, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(window, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [N, T] to logits of those that follow, [N, T, vocabulary]."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.dropout(self.tokens(tokens) + self.positions(positions))
        return F.linear(self.norm(self.blocks(hidden)), self.tokens.weight)


def gpt(
    seed: int, vocabulary: int = 83, window: int = 128, layers: int = 4, heads: int = 4, width: int = 128
) -> nn.Module:
    """Build the model; what is added to the stream of a deep one starts smaller."""
    with seeded(seed):
        model = GPT(vocabulary, window, layers, heads, width, dropout=0.1)
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=STD)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for name, parameter in model.named_parameters():
            if name.endswith(("project.weight", "perceptron.3.weight")):
                nn.init.normal_(parameter, std=STD / (2 * layers) ** 0.5)
    return model
