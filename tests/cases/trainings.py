"""The table, second half: losses, optimizers, loops and edge cases, on small perceptrons."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

import torch
from torch import nn

from . import losses, models, sequences
from .architectures import vectors
from .case import Case, sgd
from .data import binary, classes, make, normal, probabilities, spoil, zeros

tanh = partial(models.mlp, nn.Tanh)
numbers = make(normal(5), target=normal(3))
micro = make(normal(5), target=classes(3), sizes=(3,) * 6)
WEIGHT = (0.5, 1.0, 2.5)

NO_LOSSES = {"Alpha": "individual losses"}
SINGLE = {"TICDiag[hessian]": 1e-3}  # divides by curvatures close to zero
ACCUMULATED = {"HessMaxEV": "accumulated"}
NO_LOSS_FUNCTION = {**NO_LOSSES, "HessTrace": "loss", "TICDiag": "loss", "TICTrace": "loss"}
ONE_SAMPLE = dict.fromkeys(("NormTest", "InnerTest", "OrthoTest", "EarlyStopping", "MeanGSNR", "Alpha"), "one sample")
NOT_FINITE = {
    **dict.fromkeys(ONE_SAMPLE, "finite"),
    **dict.fromkeys(("CABS", "TICDiag", "TICTrace", "HessTrace", "HessMaxEV", "GradHist1d", "GradHist2d"), "finite"),
}


def _optimizer(name: str, **options: Any):
    return lambda model: getattr(torch.optim, name)(model.parameters(), **options)


def _adamw_groups(model: nn.Module) -> torch.optim.Optimizer:
    decay = [p for p in model.parameters() if p.ndim > 1]
    other = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay}, {"params": other, "lr": 0.05, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.02, weight_decay=0.1)


def _two_optimizers(model: nn.Sequential) -> list[torch.optim.Optimizer]:
    first, *rest = model
    return [
        torch.optim.SGD(first.parameters(), lr=0.2),
        torch.optim.Adam(nn.ModuleList(rest).parameters(), lr=0.01),
    ]


LOSSES = [
    Case("ce_sum", tanh, vectors, losses.cross_entropy("sum")),
    Case("ce_weights", tanh, vectors, losses.cross_entropy(weight=WEIGHT)),
    Case("ce_smooth", tanh, vectors, losses.cross_entropy(label_smoothing=0.2)),
    Case(
        "ce_everything", sequences.ChannelTagger,
        make(normal(5, 3), target=classes(4, 5, ignored=0.3), sizes=(4, 4, 4)),
        losses.cross_entropy(weight=(0.5, 1.0, 2.0, 1.5), label_smoothing=0.1),
    ),
    Case("ce_ignore_index", tanh, vectors, losses.cross_entropy(ignore_index=2)),
    Case(
        "ce_soft_targets", tanh, make(normal(5), target=probabilities(3)),
        losses.soft_cross_entropy(),
    ),
    Case("mse", tanh, numbers, losses.mse()),
    Case("mse_sum", tanh, numbers, losses.mse("sum")),
    Case("bce", tanh, make(normal(5), target=binary(3)), losses.bce_with_logits()),
    Case("bce_weight", tanh, make(normal(5), target=binary(3)), losses.bce_with_logits(2.5)),
    Case("huber", tanh, numbers, losses.huber()),
    Case("nll", models.log_softmax_mlp, vectors, losses.nll()),
    Case("poisson", tanh, make(normal(5), target=binary(3)), losses.poisson_nll()),
    Case("own_loss_module", tanh, numbers, losses.log_cosh(), expected_undefined={"Alpha": "pit.loss"}),
    Case(
        "loss_function", tanh, vectors, losses.function_cross_entropy(),
        expected_undefined=NO_LOSS_FUNCTION,
    ),
    Case("loss_not_given", tanh, vectors, gives_loss=False, expected_undefined=NO_LOSS_FUNCTION),
]  # fmt: skip

OPTIMIZERS = [
    Case("momentum", tanh, vectors, optimizer=sgd(momentum=0.9)),
    Case("nesterov", tanh, vectors, optimizer=sgd(momentum=0.9, nesterov=True, weight_decay=0.1)),
    Case("adam", tanh, vectors, optimizer=_optimizer("Adam", lr=0.02)),
    Case("adamw_groups_schedule", tanh, vectors, optimizer=_adamw_groups, loop="scheduled"),
    Case("rmsprop", tanh, vectors, optimizer=_optimizer("RMSprop", lr=0.01)),
    Case("maximize", tanh, vectors, optimizer=sgd(maximize=True)),
    Case("two_optimizers", tanh, vectors, optimizer=_two_optimizers, loop="two_optimizers"),
]

LOOP_STYLES = [
    Case("zero_after", tanh, vectors, loop="zero_after"),
    Case("accumulation", tanh, micro, loop="accumulation", expected_undefined=ACCUMULATED),
    Case(
        "accumulation_batch_norm", models.batch_norm_mlp, micro, loop="accumulation",
        coupled=True, expected_undefined=ACCUMULATED,
    ),
    Case(
        "accumulation_uneven", tanh,
        make(normal(5), target=classes(3), sizes=(4, 2, 4, 2, 3, 1)), loop="accumulation",
        expected_undefined=ACCUMULATED,
    ),
    Case("clip_norm", tanh, vectors, loop="clip_norm"),
    Case("clip_value", tanh, vectors, loop="clip_value"),
    Case(
        "autocast", tanh, vectors, loop="autocast", dtype=torch.float32, tolerance=2e-2,
        loose={"EarlyStopping": 0.3, "MeanGSNR": 0.1, "Alpha": 0.1, "TICDiag[hessian]": inf, "TICTrace[hessian]": 0.1},
    ),
    Case("scaler", tanh, vectors, loop="scaler", dtype=torch.float32, tolerance=1e-4, loose=SINGLE),
    Case("scaler_clip", tanh, vectors, loop="scaler_clip", dtype=torch.float32, tolerance=1e-4, loose=SINGLE),
    Case("evaluation", tanh, vectors, loop="evaluation"),
    Case("evaluation_with_grad", tanh, vectors, loop="evaluation_with_grad"),
    Case("compiled_in_loop", tanh, vectors, loop="compiled"),
    Case("compiled_before", tanh, vectors, wrap=partial(torch.compile, backend="eager")),
    Case("mean_of_none", tanh, vectors, losses.cross_entropy("none"), loop="mean_of_none"),
    Case("l2_term", tanh, vectors, loop="l2"),
    Case("two_forwards", tanh, vectors, loop="two_forwards"),
    Case("closure_sgd", tanh, vectors, loop="closure"),
    Case(
        "closure_lbfgs", tanh, vectors, loop="closure", may_refuse=True,
        optimizer=_optimizer("LBFGS", lr=0.1, max_iter=3),
    ),
]  # fmt: skip

EDGES = [
    Case("last_batch_smaller", tanh, make(normal(5), target=classes(3), sizes=(6, 6, 2))),
    Case(
        "one_sample", tanh, make(normal(5), target=classes(3), sizes=(1, 1, 1)),
        expected_undefined=ONE_SAMPLE,
    ),
    Case(
        "last_batch_one_sample", tanh, make(normal(5), target=classes(3), sizes=(4, 4, 1)),
        expected_undefined=ONE_SAMPLE,
    ),
    Case("float32", tanh, vectors, dtype=torch.float32, tolerance=1e-4, loose=SINGLE),
    Case("not_finite", tanh, spoil(vectors, 1), expected_undefined=NOT_FINITE),
    Case(
        "not_finite_skipped", tanh,
        spoil(make(normal(5), target=classes(3), sizes=(5,) * 4), 1),
        loop="skip_not_finite",
    ),
    Case("no_step_taken", tanh, vectors, optimizer=sgd(0.0), expected_undefined={"Alpha": "step"}),
    Case(
        "zero_gradient", models.zero_linear, make(normal(4), target=zeros(2)), losses.mse(),
        expected_undefined={
            "NormTest": "gradient", "InnerTest": "gradient", "OrthoTest": "gradient",
            "CABS": "loss", "EarlyStopping": "variance", "MeanGSNR": "variance", "Alpha": "step",
        },
    ),
    Case("negative_loss", tanh, vectors, losses.nll(), expected_undefined={"CABS": "loss"}),
]  # fmt: skip

TRAININGS = [*LOSSES, *OPTIMIZERS, *LOOP_STYLES, *EDGES]
