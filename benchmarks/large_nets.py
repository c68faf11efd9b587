"""A residual net with batch normalisation and a transformer of GPT-2's kind."""

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, arange, nn


def _normalised(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution without bias, then batch normalisation."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    """Narrow, convolve, widen by four; beside it a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_normalised(inputs, width, 1),
            nn.ReLU(),
            *_normalised(width, width, 3, stride),
            nn.ReLU(),
            *_normalised(width, 4 * width, 1),
        )
        same = inputs == 4 * width and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_normalised(inputs, 4 * width, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Add both and cut off below zero."""
        return F.relu(self.body(x) + self.shortcut(x))


def resnet(blocks: tuple[int, ...], width: int = 64, classes: int = 1000) -> nn.Module:
    """Stages of bottlenecks, each twice as wide and half as high; (3, 4, 6, 3) is ResNet-50."""
    stem = [*_normalised(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    widths = [width, *(4 * width * 2**stage for stage in range(len(blocks)))]
    body: list[nn.Module] = []
    for stage, ((inputs, outputs), count) in enumerate(zip(pairwise(widths), blocks, strict=True)):
        for block in range(count):
            first = block == 0
            body.append(Bottleneck(inputs if first else outputs, outputs // 4, 2 if first and stage else 1))
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


class Block(nn.Module):
    """Attention, then a wide layer; each normalised before and added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_wide = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the block makes of tokens [batch, time, width]."""
        batch, time, width = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).split(width, dim=2)
        q, k, v = (part.view(batch, time, self.heads, -1).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, time, width))
        wide: Tensor = self.narrow(F.gelu(self.wide(self.before_wide(x)), approximate="tanh"))
        return x + wide


class Transformer(nn.Module):
    """Predicts the next token; the embedding is also the last layer's weight."""

    def __init__(self, vocabulary: int, time: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(time, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [batch, time, vocabulary]."""
        places = self.places(arange(tokens.shape[1], device=tokens.device))
        logits: Tensor = self.head(self.last(self.blocks(self.tokens(tokens) + places)))
        return logits
