"""Cases by lot: a random program from a number, where nobody thought of the combination.

    drawn(7)  # always the same Case

Layers are drawn one after the other, each for the shape that the last one left; programs are small
enough for the slow reference.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from . import losses
from .case import Case
from .data import binary, classes, make, normal, probabilities
from .losses import Loss

NOISE = {"EarlyStopping": float("inf"), "MeanGSNR": float("inf")}  # divide by variances that may be nearly zero
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
MOST = 300  # parameters: the reference forms their Hessian

Shape = tuple[int, ...]
Layer = Callable[[], nn.Module]


class Residual(nn.Module):
    """x + f(x)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Again(nn.Module):
    """The same layer, several times."""

    def __init__(self, body: nn.Module, times: int) -> None:
        super().__init__()
        self.body, self.times = body, times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            x = torch.tanh(self.body(x))
        return x


class Mean(nn.Module):
    """The mean over all axes but these."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(self.axes)


class ChannelsLast(nn.Module):
    """[N, C, ...] -> [N, ..., C], a view."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1)


class Attention(nn.Module):
    """Self-attention on [N, T, C]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x, need_weights=False)[0]


class Last(nn.Module):
    """A recurrent network's output."""

    def __init__(self, inner: nn.RNNBase) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[0]


class Program:
    """A model that is being drawn: its layers, and the shape that they have led to (without the batch)."""

    def __init__(self, lot: Random) -> None:
        self.lot = lot
        self.layers: list[nn.Module] = []
        self.shape: Shape = ()
        self.noisy = self.coupled = False

    def add(self, layer: nn.Module) -> bool:
        """Put a layer behind the others, if it fits there."""
        was = layer.training
        try:
            with torch.no_grad():
                out = layer.eval()(torch.zeros(2, *self.shape))
        except RuntimeError:
            return False
        finally:
            layer.train(was)
        if out.numel() == 0 or prod(out.shape[1:]) > 400:
            return False
        self.layers.append(layer)
        self.shape = tuple(out.shape[1:])
        return True

    def activation(self) -> None:
        """One of many functions, elementwise."""
        pick = self.lot.choice
        self.add(
            pick(
                [
                    nn.ReLU, nn.ReLU, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus,
                    nn.PReLU, lambda: nn.ReLU(inplace=True), nn.Hardtanh, lambda: nn.Dropout(0.0),
                ]
            )()
        )  # fmt: skip


def _convolution(program: Program) -> None:
    lot, (channels, *places) = program.lot, program.shape
    d = len(places)
    several = lambda *choices: tuple(lot.choice(choices) for _ in range(d))  # noqa: E731
    groups = lot.choice([g for g in (1, 1, 1, 2, 3) if channels % g == 0])
    out = groups * lot.choice([1, 2, 3] if groups > 1 else [1, 2, 3, 4, 5])
    options: dict[str, Any] = {"groups": groups, "bias": lot.random() < 0.7, "stride": several(1, 1, 2, 3)}
    kernel = several(1, 2, 3, 3) if d < 3 else several(1, 2)
    if lot.random() < 0.2:
        transposed = TRANSPOSED[d - 1](
            channels, out, kernel, padding=several(0, 1), dilation=several(1, 2),
            output_padding=several(0, 0, 1), **options,
        )  # fmt: skip
        program.add(transposed)
        return
    padding: Any = several(0, 1, 1, 2)
    if lot.random() < 0.15:
        padding, options["stride"] = lot.choice(["same", "valid"]), 1
    mode = lot.choice(["zeros"] * 6 + ["circular", "reflect", "replicate"])
    program.add(
        CONVOLUTIONS[d - 1](
            channels, out, kernel, padding=padding, dilation=several(1, 1, 2), padding_mode=mode, **options
        )
    )


def _pooling(program: Program) -> None:
    lot, d = program.lot, len(program.shape) - 1
    kernel, stride = lot.choice([2, 3]), lot.choice([1, 2, 2, 3])
    kind = lot.choice(["Max", "Max", "Avg", "AdaptiveAvg", "AdaptiveMax"])
    pool = getattr(nn, f"{kind}Pool{d}d")
    if kind.startswith("Adaptive"):
        program.add(pool(lot.choice([1, 2, 3])))
    elif kind == "Max":
        program.add(pool(kernel, stride, padding=lot.choice([0, 0, 1]), ceil_mode=lot.random() < 0.3))
    else:
        program.add(pool(kernel, stride, padding=lot.choice([0, 0, 1]), count_include_pad=lot.random() < 0.5))


def _norm(program: Program) -> None:
    lot, channels, d = program.lot, program.shape[0], len(program.shape) - 1
    kind = lot.choice(["group", "group", "layer", "instance", "batch", "batch_eval"])
    program.noisy = True
    if kind == "group":
        program.add(nn.GroupNorm(lot.choice([g for g in (1, 2, 3) if channels % g == 0]), channels))
    elif kind == "layer":
        program.add(nn.LayerNorm(program.shape[lot.randrange(d + 1) :]))
    elif kind == "instance" and d:
        program.add(getattr(nn, f"InstanceNorm{d}d")(channels, affine=True))
    elif kind.startswith("batch"):
        layer = getattr(nn, f"BatchNorm{max(d, 1)}d")(channels)
        if kind == "batch_eval":
            nn.init.uniform_(layer.running_mean, -0.5, 0.5)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
            layer.eval()
        else:
            program.coupled = True
        program.add(layer)


def _repeated(program: Program) -> None:
    """A block that keeps the shape: added to its input, or used several times."""
    lot, shape = program.lot, program.shape
    if len(shape) == 1:
        body: nn.Module = nn.Linear(shape[0], shape[0], bias=lot.random() < 0.8)
    else:
        body = CONVOLUTIONS[len(shape) - 2](shape[0], shape[0], 3, padding=1)
    program.add(Residual(nn.Sequential(body, nn.Tanh())) if lot.random() < 0.5 else Again(body, lot.choice([2, 3])))


def _images(program: Program) -> Any:
    lot = program.lot
    d = lot.choice([1, 2, 2, 2, 2, 3])
    side = {1: (6, 12), 2: (4, 9), 3: (3, 4)}[d]
    program.shape = begin = (lot.choice([1, 2, 3, 4]), *(lot.randint(*side) for _ in range(d)))
    for _ in range(lot.choice([1, 2, 2, 3, 3])):
        _convolution(program)
        if lot.random() < 0.25:
            _norm(program)
        if lot.random() < 0.8:
            program.activation()
        if lot.random() < 0.35:
            _pooling(program)
        if lot.random() < 0.1 and prod(program.shape) < 60:
            _repeated(program)
    if lot.random() < 0.15:
        program.add(ChannelsLast())
        program.add(nn.Linear(program.shape[-1], lot.choice([2, 3])))
        program.add(nn.Tanh())
    if lot.random() < 0.3 or prod(program.shape) > 40:
        program.add(Mean(*range(2, 1 + len(program.shape))))
    program.add(nn.Flatten())
    return normal(*begin)


def _vectors(program: Program) -> Any:
    lot = program.lot
    program.shape = begin = (lot.randint(2, 8),)
    for _ in range(lot.choice([0, 1, 2, 2, 3])):
        program.add(nn.Linear(program.shape[0], lot.randint(2, 7), bias=lot.random() < 0.8))
        if lot.random() < 0.25:
            _norm(program)
        program.activation()
        if lot.random() < 0.3:
            _repeated(program)
    return normal(*begin)


def _sequence_layers(program: Program) -> None:
    lot = program.lot
    for _ in range(lot.choice([1, 2, 2, 3])):
        width = program.shape[-1]
        kind = lot.choice(["linear", "linear", "norm", "attention", "lstm", "gru", "residual"])
        if kind == "linear":
            program.add(nn.Linear(width, lot.choice([2, 3, 4]), bias=lot.random() < 0.8))
            program.activation()
        elif kind == "norm":
            program.noisy = True
            program.add(lot.choice([nn.LayerNorm, nn.RMSNorm])(width, eps=1e-5))
        elif kind == "attention":
            program.noisy = True
            program.add(Attention(width, lot.choice([h for h in (1, 2) if width % h == 0])))
        elif kind == "residual":
            program.add(Residual(nn.Sequential(nn.Linear(width, width), nn.GELU())))
        else:
            cell = {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
            program.add(Last(cell(width, lot.choice([2, 3]), batch_first=True)))
    if lot.random() < 0.5:
        program.add(Mean(1))
    else:
        program.add(nn.Flatten())


def _sequences(program: Program) -> Any:
    lot = program.lot
    program.shape = begin = (lot.randint(2, 6), lot.choice([2, 3, 4]))
    _sequence_layers(program)
    return normal(*begin)


def _words(program: Program) -> Any:
    lot = program.lot
    count, width, length = lot.randint(4, 9), lot.choice([2, 3, 4]), lot.randint(2, 5)
    program.layers.append(nn.Embedding(count, width, padding_idx=lot.choice([None, None, 0])))
    program.shape = (length, width)
    _sequence_layers(program)
    return classes(count, length)


def _loss(lot: Random, outputs: int) -> tuple[Loss, Any]:
    weight = tuple(0.5 + i for i in range(outputs))
    return lot.choice(
        [
            (losses.cross_entropy(), classes(outputs)),
            (losses.cross_entropy(), classes(outputs)),
            (losses.cross_entropy("sum"), classes(outputs)),
            (losses.cross_entropy(weight=weight), classes(outputs)),
            (losses.cross_entropy(label_smoothing=0.1), classes(outputs)),
            (losses.soft_cross_entropy(), probabilities(outputs)),
            (losses.mse(), normal(outputs)),
            (losses.mse("sum"), normal(outputs)),
            (losses.bce_with_logits(), binary(outputs)),
            (losses.huber(), normal(outputs)),
        ]
    )


def _optimizer(lot: Random) -> Callable[[nn.Module], torch.optim.Optimizer]:
    name, options = lot.choice(
        [
            ("SGD", {"lr": 0.05}),
            ("SGD", {"lr": 0.05}),
            ("SGD", {"lr": 0.02, "momentum": 0.9}),
            ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
            ("Adam", {"lr": 0.01, "eps": 1e-2}),
            ("AdamW", {"lr": 0.01, "eps": 1e-2}),
            ("RMSprop", {"lr": 0.01, "eps": 1e-1}),
        ]
    )
    return lambda model: getattr(torch.optim, name)(model.parameters(), **options)


def drawn(seed: int) -> Case:
    """The case of this number."""
    lot = Random(seed)
    while True:
        case = _attempt(lot, seed)
        if case is not None:
            return case


def _attempt(lot: Random, seed: int) -> Case | None:
    family = lot.choice([_images] * 5 + [_vectors] * 2 + [_sequences] * 2 + [_words])
    start = lot.getrandbits(32)
    outputs = lot.choice([2, 3, 4])

    def program() -> tuple[Program, Any]:
        made = Program(Random(start))
        inputs = family(made)
        if len(made.shape) == 1:
            made.add(nn.Linear(made.shape[0], outputs))
        return made, inputs

    def model() -> nn.Module:
        return nn.Sequential(*program()[0].layers)

    with torch.random.fork_rng(devices=[]):
        tried, inputs = program()
        count = sum(p.numel() for p in nn.Sequential(*tried.layers).parameters())
    if tried.shape != (outputs,) or count > MOST:
        return None
    loss, target = _loss(lot, outputs)
    loop = lot.choice(["plain"] * 4 + ["zero_after", "clip_norm", "scheduled", "l2"])
    n = lot.choice([3, 4, 5, 6])
    sizes = lot.choice([(n,) * 8, (n,) * 8, (n, n, n, n, n + 1, n, n, 2), (n, n + 2) * 4])
    return Case(
        f"drawn_{seed}", model, make(inputs, target=target, sizes=sizes, seed=seed), loss, _optimizer(lot),
        loop=loop, coupled=tried.coupled, loose=NOISE if tried.noisy else {},
    )  # fmt: skip
