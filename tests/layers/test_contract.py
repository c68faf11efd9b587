"""Every layer passes the contract suite: one table of modules and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from cockpit.testing import LayerContract


class Row(NamedTuple):
    module: Callable[[], nn.Module]
    shape: tuple[int, ...]
    axis: int = 0
    words: int = 0  # vocabulary: inputs are indices


class First(nn.Module):
    """The first result of a module with several."""

    def __init__(self, inner: nn.Module, *, thrice: bool = False) -> None:
        super().__init__()
        self.inner, self.thrice = inner, thrice

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inner(*([inputs] * 3 if self.thrice else [inputs]))[0]


class Positions(nn.Module):
    """A table looked up without a batch axis, added to every sample."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(length, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.table(torch.arange(inputs.shape[1]))


class Einsum(nn.Module):
    """Parameters held directly and used by functions."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.einsum("nti,io->nto", inputs, self.weight).exp() / self.scale.exp()


class Twice(nn.Module):
    """One layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(torch.relu_(self.layer(inputs)))


class Frames(nn.Module):
    """Frames folded into the batch of a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 2)

    def forward(self, inputs: Tensor) -> Tensor:  # [N, T, 2, H, W]
        return self.layer(inputs.flatten(0, 1)).unflatten(0, inputs.shape[:2])


def recurrent(kind: type[nn.RNNBase], **options: object) -> Callable[[], nn.Module]:
    return lambda: First(kind(4, 3, **options))


TABLE = {
    "linear": Row(lambda: nn.Linear(4, 3), (3, 4)),
    "linear_sequence": Row(lambda: nn.Linear(4, 3), (3, 5, 4)),
    "linear_grid": Row(lambda: nn.Linear(4, 3, bias=False), (3, 2, 3, 4)),
    "linear_time_first": Row(lambda: nn.Linear(4, 3), (3, 3, 4), axis=1),
    "linear_long": Row(lambda: nn.Linear(2, 2), (3, 40, 2)),
    "conv1d": Row(lambda: nn.Conv1d(2, 4, 3, stride=2, padding=1, dilation=2), (3, 2, 9)),
    "conv1d_same": Row(lambda: nn.Conv1d(2, 4, 3, padding="same", dilation=2), (3, 2, 9)),
    "conv2d": Row(lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (3, 4, 6, 7)),
    "conv2d_depthwise": Row(lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1), (3, 4, 5, 5)),
    "conv2d_circular": Row(lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (3, 2, 5, 4)),
    "conv2d_reflect": Row(lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect", bias=False), (3, 2, 5, 4)),
    "conv3d": Row(lambda: nn.Conv3d(2, 3, 2, stride=(1, 2, 1)), (3, 2, 3, 4, 3)),
    "conv_frames": Row(Frames, (3, 2, 2, 4, 4)),
    "transposed1d": Row(lambda: nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=1), (3, 2, 5)),
    "transposed2d": Row(lambda: nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, groups=2, dilation=2), (3, 4, 4, 5)),
    "transposed3d": Row(lambda: nn.ConvTranspose3d(2, 1, 2, stride=2), (3, 2, 2, 3, 2)),
    "embedding": Row(lambda: nn.Embedding(7, 4, padding_idx=0), (3, 5), words=7),
    "embedding_frequency": Row(lambda: nn.Embedding(50, 2), (3, 2), words=50),
    "embedding_bag_sum": Row(lambda: nn.EmbeddingBag(7, 4, mode="sum"), (3, 5), words=7),
    "embedding_bag_mean": Row(lambda: nn.EmbeddingBag(7, 4, mode="mean", padding_idx=1), (3, 5), words=7),
    "embedding_bag_max": Row(lambda: nn.EmbeddingBag(7, 4, mode="max"), (3, 5), words=7),
    "layer_norm": Row(lambda: nn.LayerNorm(4), (3, 5, 4)),
    "layer_norm_2d": Row(lambda: nn.LayerNorm((2, 4)), (3, 2, 4)),
    "rms_norm": Row(lambda: nn.RMSNorm(4), (3, 5, 4)),
    "group_norm": Row(lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "instance_norm1d": Row(lambda: nn.InstanceNorm1d(4, affine=True), (3, 4, 6)),
    "instance_norm2d": Row(lambda: nn.InstanceNorm2d(3, affine=True), (3, 3, 4, 4)),
    "batch_norm_eval": Row(lambda: nn.BatchNorm2d(4).eval(), (3, 4, 3, 3)),
    "batch_norm_eval_flat": Row(lambda: nn.BatchNorm1d(4).eval(), (3, 4)),
    "prelu": Row(lambda: nn.PReLU(4), (3, 4, 5)),
    "prelu_single": Row(nn.PReLU, (3, 4, 5)),
    "attention": Row(lambda: First(nn.MultiheadAttention(4, 2, batch_first=True), thrice=True), (3, 5, 4)),
    "attention_time_first": Row(lambda: First(nn.MultiheadAttention(4, 2), thrice=True), (5, 3, 4), axis=1),
    "attention_square": Row(lambda: First(nn.MultiheadAttention(4, 2), thrice=True), (3, 3, 4), axis=1),
    "attention_kv_bias": Row(
        lambda: First(nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True), thrice=True), (3, 5, 4)
    ),
    "encoder_layer": Row(lambda: nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True), (3, 5, 4)),
    "rnn": Row(recurrent(nn.RNN, batch_first=True), (3, 4, 4)),
    "lstm": Row(recurrent(nn.LSTM, batch_first=True, num_layers=2, bidirectional=True), (3, 4, 4)),
    "lstm_projected": Row(recurrent(nn.LSTM, batch_first=True, proj_size=2), (3, 4, 4)),
    "gru_time_first": Row(recurrent(nn.GRU), (3, 3, 4), axis=1),
    "positions": Row(lambda: Positions(5), (3, 5, 4)),
    "positions_square": Row(lambda: Positions(3), (3, 3, 4)),
    "einsum": Row(Einsum, (3, 5, 4)),
    "used_twice": Row(Twice, (3, 4)),
    "weight_norm": Row(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), (3, 4)),
    "spectral_norm": Row(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)).eval(), (3, 4)),
}


@pytest.mark.parametrize("name", TABLE)
class TestLayers(LayerContract):
    @pytest.fixture(autouse=True)
    def _chosen(self, name: str) -> None:
        self.row = TABLE[name]
        self.batch_axis = self.row.axis

    def module(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.row.module()

    def inputs(self, generator: torch.Generator) -> Tensor:
        if self.row.words:
            return torch.randint(0, self.row.words, self.row.shape, generator=generator)
        return torch.randn(self.row.shape, generator=generator)
