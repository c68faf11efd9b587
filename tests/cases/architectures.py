"""The table, first half: every kind of model, trained by plain gradient descent."""

from __future__ import annotations

from functools import partial
from math import inf

from torch import Tensor, nn

from . import models, sequences
from .case import Case
from .data import Batch, classes, make, normal
from .losses import mse

# Elements whose gradient is zero in exact arithmetic and rounding noise on a machine (the bias of
# an attention's keys, a bias in front of InstanceNorm) enter these two means with a random ratio.
NOISE = {"EarlyStopping": inf, "MeanGSNR": inf}
# A model that computes its own loss shows a tool neither individual losses nor its output.
OWN_LOSS = {
    "Alpha": "individual losses",
    "HessTrace": "loss",
    "TICDiag": "loss",
    "TICTrace": "loss",
}
# torch cannot differentiate nn.EmbeddingBag twice.
ONCE = dict.fromkeys(("HessMaxEV", "HessTrace[hessian]", "TICDiag[hessian]", "TICTrace[hessian]"), "derivative")

vectors = make(normal(5), target=classes(3))
images = make(normal(1, 5, 5), target=classes(3), sizes=(4, 4, 4))
series = make(normal(6, 3), target=classes(3), sizes=(4, 4, 4))  # [N, T, 3]
series_square = make(normal(4, 3), target=classes(3), sizes=(4, 4, 4))  # T = N
time_first = make(normal(6, 3, axis=1), target=classes(3), sizes=(4, 4, 4))  # [T, N, 3]
time_first_square = make(normal(4, 3, axis=1), target=classes(3), sizes=(4, 4, 4))
words = make(classes(7, 6), target=classes(3), sizes=(4, 4, 4))  # [N, T]


def _offset_bags() -> list[Batch]:
    """Bags of 1, 2, 3, ... tokens in one line, with their offsets."""
    made = make(classes(7, 10), target=classes(3), sizes=(4, 4, 4))()
    offsets = Tensor([0, 1, 3, 6]).long()
    return [Batch((args[0][0], offsets), target) for args, target in made]


def _one_bag(batch: Batch, n: int) -> Batch:
    tokens, offsets = batch.args
    ends = [*offsets.tolist(), len(tokens)]
    return Batch((tokens[ends[n] : ends[n + 1]], offsets[:1]), batch.target[n : n + 1])


DENSE = [
    Case("relu_mlp", models.mlp, vectors),
    Case("sigmoid_mlp", partial(models.mlp, nn.Sigmoid), vectors),
    Case("tanh_mlp", partial(models.mlp, nn.Tanh), vectors),
    Case("gelu_mlp", partial(models.mlp, nn.GELU), vectors),
    Case("hidden_equals_batch", partial(models.mlp, nn.Tanh, (5, 5, 5, 5)), vectors),
    Case(
        "linear_on_sequences", partial(models.mlp, nn.Tanh, (3, 4, 2)),
        make(normal(6, 3), target=normal(6, 2), sizes=(4, 4, 4)), mse(),
    ),
    Case(
        "linear_on_grids_square", partial(models.mlp, nn.Tanh, (4, 4, 4)),
        make(normal(4, 4, 4), target=normal(4, 4, 4), sizes=(4, 4, 4)), mse(),
    ),
    Case("layer_norm", partial(models.norm_mlp, nn.LayerNorm), vectors),
    Case("rms_norm", partial(models.norm_mlp, nn.RMSNorm), vectors),
    Case("autoencoder", models.autoencoder, make(normal(6)), mse()),
    Case("tied_autoencoder", models.TiedAutoencoder, make(normal(6)), mse()),
    Case("layer_used_twice", models.Twice, vectors),
    Case("in_place_relu", models.InPlace, vectors),
    Case("own_parameters", models.Gated, vectors),
    Case("two_inputs", models.TwoInputs, make(normal(3), normal(2), target=classes(3))),
    Case("frozen", models.frozen, vectors),
    Case("unused_parameter", models.Unused, vectors, uncovered=("spare",)),
    Case(
        "weight_norm", models.weight_norm, vectors,
        uncovered=("2.parametrizations.weight.original0", "2.parametrizations.weight.original1"),
        expected_undefined={"HessMaxEV": "not symmetric"},  # torch's own second derivative of it is not
    ),
]  # fmt: skip

CONVOLUTIONAL = [
    Case("cnn", models.cnn, make(normal(2, 8, 8), target=classes(3))),
    Case("cnn_margins", models.margins_cnn, make(normal(2, 6, 6), target=classes(3))),
    Case("cnn_circular", partial(models.padded_cnn, "circular"), images),
    Case("cnn_reflect", partial(models.padded_cnn, "reflect"), images),
    Case("conv1d", models.conv1d, make(normal(2, 7), target=classes(3))),
    Case("conv3d", models.conv3d, make(normal(1, 3, 4, 3), target=classes(3))),
    Case("conv_transpose", models.conv_transpose, make(normal(2, 3, 3), target=classes(3))),
    Case("prelu", models.prelu_cnn, make(normal(2, 4, 4), target=classes(3))),
    Case("resnet_batch_norm", partial(models.ResNet, nn.BatchNorm2d), images, coupled=True),
    Case("mlp_batch_norm", models.batch_norm_mlp, vectors, coupled=True),
    Case(
        "resnet_batch_norm_eval",
        lambda: models.seen_before(models.ResNet(nn.BatchNorm2d)), images,
    ),
    Case("resnet_group_norm", partial(models.ResNet, partial(nn.GroupNorm, 2)), images),
    Case(
        "resnet_instance_norm",
        partial(models.ResNet, partial(nn.InstanceNorm2d, affine=True)), images, loose=NOISE,
    ),
]  # fmt: skip

SEQUENTIAL = [
    Case("transformer", partial(sequences.Encoder, True), series, loose=NOISE),
    Case(
        "transformer_norm_first",
        partial(sequences.Encoder, True, 2, norm_first=True, activation="gelu"), series,
        loose=NOISE,
    ),
    Case("transformer_square", partial(sequences.Encoder, True), series_square, loose=NOISE),
    Case(
        "transformer_time_first", partial(sequences.Encoder, False), time_first, batch_axis=1,
        loose=NOISE,
    ),
    Case(
        "transformer_time_first_square", partial(sequences.Encoder, False), time_first_square,
        batch_axis=1, loose=NOISE,
    ),
    Case(
        "attention_cross", partial(sequences.CrossAttention, 4),
        make(normal(3, 4), normal(5, 4), target=classes(3), sizes=(4, 4, 4)), loose=NOISE,
    ),
    Case(
        "attention_other_width", partial(sequences.CrossAttention, 3),
        make(normal(2, 4), normal(4, 3), target=classes(3), sizes=(4, 4, 4)), loose=NOISE,
    ),
    Case("attention_by_hand", sequences.HandAttention, make(normal(5, 4), target=classes(3))),
    Case("lstm", partial(sequences.Recurrent, "LSTM", True), series),
    Case("lstm_square", partial(sequences.Recurrent, "LSTM", True), series_square),
    Case("lstm_time_first", partial(sequences.Recurrent, "LSTM", False), time_first, batch_axis=1),
    Case(
        "lstm_deep", partial(sequences.Recurrent, "LSTM", True, 2, num_layers=2, bidirectional=True),
        series,
    ),
    Case("lstm_cell", sequences.Cell, series),
    Case("gru", partial(sequences.Recurrent, "GRU", True), series),
    Case("gru_time_first", partial(sequences.Recurrent, "GRU", False), time_first, batch_axis=1),
    Case("rnn", partial(sequences.Recurrent, "RNN", True), series),
    Case(
        "rnn_time_first_square", partial(sequences.Recurrent, "RNN", False), time_first_square,
        batch_axis=1,
    ),
    Case(
        "tagger_flat", partial(sequences.Tagger, True),
        make(normal(6, 3), target=classes(4, 6, ignored=0.3), sizes=(4, 4, 4)), loop="flat",
    ),
    Case(
        "tagger_flat_time_first", partial(sequences.Tagger, False),
        make(normal(4, 3, axis=1), target=classes(4, 4, axis=1, ignored=0.3), sizes=(4, 4, 4)),
        loop="flat", batch_axis=1, target_axis=1,
    ),
    Case("embedding", sequences.Words, words),
    Case(
        "embedding_bag_mean", partial(sequences.Bag, "mean"), words,
        expected_undefined=ONCE, twin=partial(sequences.Bag, "mean", fused=False),
    ),
    Case(
        "embedding_bag_max", partial(sequences.Bag, "max"), words,
        expected_undefined=ONCE, twin=partial(sequences.Bag, "max", fused=False),
    ),
    Case(
        "embedding_bag_offsets", partial(sequences.Bag, "sum"), _offset_bags, split=_one_bag,
        expected_undefined=ONCE, twin=partial(sequences.Bag, "sum", fused=False),
    ),
    Case("positions", partial(sequences.Positions, 6), words),
    Case(
        "positions_square", partial(sequences.Positions, 4),
        make(classes(7, 4), target=classes(3), sizes=(4, 4, 4)),
    ),
    Case(
        "class_token", partial(sequences.ClassToken, 3),
        make(normal(3, 4), target=classes(3), sizes=(4, 4, 4)), loose=NOISE,
    ),
    Case(
        "tied_language_model", sequences.TiedLanguageModel,
        make(classes(7, 5), target=classes(7, 5), sizes=(4, 4, 4)), loop="flat",
    ),
    Case(
        "gpt2", sequences.gpt2,
        make(input_ids=classes(7, 5), target=classes(7, 5, ignored=0.2), sizes=(4, 4, 4)),
        loop="own_next_token_loss", gives_loss=False, expected_undefined=OWN_LOSS, loose=NOISE,
        tolerance=1e-4,  # the library computes its loss in single precision
    ),
    Case(
        "gpt2_logits", sequences.gpt2,
        make(input_ids=classes(7, 4), target=classes(7, 4, ignored=0.2), sizes=(4, 4, 4)),
        loop="logits_flat", loose=NOISE,
    ),
    Case(
        "bert", sequences.bert,
        make(
            input_ids=classes(7, 5), attention_mask=lambda g, n: (Tensor(
                [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]
            ).long())[:n],
            target=classes(3), sizes=(4, 4, 4),
        ),
        loop="logits", loose=NOISE,
    ),
    Case(
        "bert_own_loss", sequences.bert,
        make(input_ids=classes(7, 4), target=classes(3), sizes=(4, 4, 4)),
        loop="own_loss", gives_loss=False, expected_undefined=OWN_LOSS, loose=NOISE,
    ),
    Case(
        "tagger_classes_second", sequences.ChannelTagger,
        make(normal(5, 3), target=classes(4, 5, ignored=0.2)),
    ),
]  # fmt: skip

ARCHITECTURES = [*DENSE, *CONVOLUTIONAL, *SEQUENTIAL]
