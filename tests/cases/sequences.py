"""Tiny models of sequences: attention, recurrence, embeddings, Hugging Face."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Encoder(nn.Module):
    """nn.TransformerEncoder on [N, T, 3] (or [T, N, 3]), averaged over time: -> [N, 3]."""

    def __init__(self, batch_first: bool, layers: int = 1, **options: Any) -> None:
        super().__init__()
        self.time = 1 if batch_first else 0
        self.embed = nn.Linear(3, 4)
        layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0, batch_first=batch_first, **options)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(self.time))


class Tagger(nn.Module):
    """A class for every position: [N, T, 3] -> [N, T, 4] (or time first)."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=batch_first)
        self.head = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0])


class ChannelTagger(nn.Module):
    """The same for a loss that wants classes second: [N, T, 3] -> [N, 4, T]."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).transpose(1, 2)


class CrossAttention(nn.Module):
    """nn.MultiheadAttention of a query over another sequence: [N, T, 4], [N, S, k] -> [N, 3]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, kdim=width, vdim=width, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, query: Tensor, memory: Tensor) -> Tensor:
        return self.head(self.attention(query, memory, memory, need_weights=False)[0].mean(1))


class HandAttention(nn.Module):
    """Attention written by hand, with matrices held as plain parameters: [N, T, 4] -> [N, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Parameter(torch.randn(4, 4) / 2) for _ in range(4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores = (x @ self.query) @ (x @ self.key).transpose(1, 2) / 2
        return self.head((scores.softmax(-1) @ (x @ self.value) @ self.out + x).mean(1))


class Recurrent(nn.Module):
    """The last output of nn.RNN, nn.LSTM or nn.GRU: [N, T, 3] (or time first) -> [N, 3]."""

    def __init__(self, kind: str, batch_first: bool, hidden: int = 4, **options: Any) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.rnn = getattr(nn, kind)(3, hidden, batch_first=batch_first, **options)
        self.head = nn.Linear(hidden * (1 + self.rnn.bidirectional), 3)

    def forward(self, x: Tensor) -> Tensor:
        out = self.rnn(x)[0]
        return self.head(out[:, -1] if self.batch_first else out[-1])


class Cell(nn.Module):
    """nn.LSTMCell, unrolled by the user: [N, T, 3] -> [N, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


class Words(nn.Module):
    """nn.Embedding with a padding index, averaged: [N, T] -> [N, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4, padding_idx=0)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.embedding(tokens)).mean(1))


class PlainBag(nn.Module):
    """nn.EmbeddingBag in plain operations, which can be differentiated twice."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.weight = nn.Parameter(torch.randn(7, 4))

    def forward(self, tokens: Tensor, offsets: Tensor | None = None) -> Tensor:
        if offsets is None:
            bags = list(tokens)
        else:
            bags = list(tokens.tensor_split(offsets[1:]))
        rows = [self.weight[bag] for bag in bags]
        if self.mode == "max":
            return torch.stack([row.amax(0) for row in rows])
        return torch.stack([getattr(row, self.mode)(0) for row in rows])


class Bag(nn.Module):
    """nn.EmbeddingBag: [N, T], or all tokens in one line with offsets [N] -> [N, 3]."""

    def __init__(self, mode: str, fused: bool = True) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 4, mode=mode) if fused else PlainBag(mode)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens: Tensor, offsets: Tensor | None = None) -> Tensor:
        return self.head(torch.tanh(self.bag(tokens, offsets)))


class Positions(nn.Module):
    """A learned position embedding that knows no batch axis: [N, T] -> [N, 3]."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.token = nn.Embedding(7, 4)
        self.position = nn.Embedding(length, 4)
        self.mix = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(F.gelu(self.mix(x)).mean(1))


class ClassToken(nn.Module):
    """A class token expanded over the batch, positions as a parameter: [N, T, 4] -> [N, 3]."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.position = nn.Parameter(torch.randn(1, length + 1, 4) / 4)
        self.norm = nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 1, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        y = self.norm(x)
        return self.head((x + self.attention(y, y, y, need_weights=False)[0])[:, 0])


class TiedLanguageModel(nn.Module):
    """The output layer shares the embedding's weight: [N, T] -> [N, T, 7]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.mix = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.mix(self.embedding(tokens))))


def gpt2() -> nn.Module:
    """A tiny Hugging Face GPT-2 with a language-model head (tied), untrained."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=7, n_positions=6, n_embd=4, n_layer=1, n_head=2, n_inner=6,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).train()
    model.loss_type = "ForCausalLM"  # what it falls back to, without the message
    return model


def bert() -> nn.Module:
    """A tiny Hugging Face BERT for sequence classification, untrained."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=7, hidden_size=4, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=6, max_position_embeddings=6, num_labels=3,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config).train()
