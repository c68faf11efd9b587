"""How well a model does on a split: unweighted means over complete batches, the L2 term included."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from cockpit.bench.precision import full
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batches, Problem, Splits


@torch.no_grad()
def evaluate(
    problem: Problem,
    model: nn.Module,
    batches: Batches,
    batch_size: int,
    autocast: AbstractContextManager[object] | None = None,
    generator: torch.Generator | None = None,
) -> dict[str, float]:
    """The loss, and the accuracy where there is one, of a model in evaluation mode."""
    model.eval()
    if problem.begin is not None:
        problem.begin(model)
    losses: list[Tensor] = []
    accuracies: list[Tensor] = []
    for inputs, targets in batches.epoch(batch_size, generator):
        with autocast or nullcontext():
            outputs = model(inputs)
            losses.append(full(problem.losses(outputs, targets)).mean())
            if problem.accuracies is not None:
                accuracies.append(full(problem.accuracies(outputs, targets)).sum())  # whole numbers stay exact
    found = {"loss": mean(losses) + float(problem.regularisation(model))}
    return found | ({"accuracy": mean(accuracies) / batch_size} if problem.accuracies is not None else {})


def evaluate_all(
    problem: Problem,
    model: nn.Module,
    splits: Splits,
    batch_size: int,
    autocast: AbstractContextManager[object] | None = None,
    redraw: torch.Generator | None = None,
    judged: torch.Generator | None = None,
) -> dict[str, float]:
    """All metrics of all splits: ``train_loss``, ``valid_loss``, ``test_accuracy`` and so on.

    Samples are taken as they come; ``redraw`` chooses those of a validation set that is not held out, ``judged`` those
    of train-eval, and changes them as in training.
    """
    named = {"train": splits.train_eval, "valid": splits.valid, "test": splits.test}
    drawn = {"train": judged, "valid": redraw}
    return {
        f"{split}_{kind}": value
        for split, batches in named.items()
        if batches is not None
        for kind, value in evaluate(problem, model, batches, batch_size, autocast, drawn.get(split)).items()
    }


def check_sizes(splits: Splits, batch_size: int) -> None:
    """Refuse a batch size of which a split has not even one batch."""
    named = {"train": splits.train, "train-eval": splits.train_eval, "valid": splits.valid, "test": splits.test}
    for name, batches in named.items():
        if batches is not None and batches.steps(batch_size) < 1:
            raise CockpitError(
                f"batch size {batch_size}: the {name} data have {len(batches)} samples, not one complete batch; "
                "give a smaller batch size"
            )


def mean(values: list[Tensor]) -> float:
    """The mean of batch values, fetched from the device in one piece."""
    return torch.stack(values).cpu().double().mean().item()
