"""Many runs at once: all seeds and settings of a problem whose batches act through their mean alone.

The quadratic form and the two-dimensional functions are such problems: the loss of a batch is the loss of its mean
sample, plus a number that does not depend on the parameters. So a step costs one sample for each run, and the runs are
rows of one tensor. An optimizer that treats each element by itself acts on the rows as it does on each run alone; any
other is built for each run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from cockpit.bench import rates
from cockpit.bench.evaluation import check_sizes
from cockpit.bench.optimizers import Choice, unwrapped
from cockpit.bench.plan import Plan, make_plan
from cockpit.bench.schedules import Schedule, label
from cockpit.bench.seeds import epoch_generators, model_seed
from cockpit.core.errors import CockpitError, unknown
from cockpit.optimizers.wrapper import build
from cockpit.problems._base import Batches, Place, Problem, Splits, Variant
from cockpit.results.result import Result

PROBLEMS = ("quadratic_deep", "two_d_beale", "two_d_branin", "two_d_rosenbrock")
# No element's update depends on another's. Adafactor, LBFGS and Muon look at whole tensors, SparseAdam at sparse ones;
# of an optimizer from elsewhere nothing is known.
ELEMENTWISE = {
    torch.optim.Adadelta,
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.ASGD,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Rprop,
    torch.optim.SGD,
    build,
}

Rows = dict[str, Tensor]  # by name of parameter, [runs, *shape], or of one run
Sample = tuple[Tensor, Tensor]  # inputs and targets of one sample, or of one for each run


def run_many(
    problem: str,
    choices: Sequence[Choice],
    seeds: Sequence[int],
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    schedule: str | Schedule = "constant",
    variant: Variant | None = None,
) -> list[Result]:
    """Train with each choice from each seed, and evaluate after every epoch; results choice by choice, seed by seed.

    A run is the same, to rounding, as if it were alone. It ends with the epoch in which its loss stops being finite.
    Mini-batch losses and times are not recorded, and nothing is written.
    """
    if problem not in PROBLEMS:
        raise unknown("problem of which many runs go at once", problem, PROBLEMS)
    if rates.is_factory(schedule):
        raise CockpitError(f"schedule {label(schedule)} is no factor for an epoch; many runs at once need one")
    shared = {"epochs": epochs, "batch_size": batch_size, "schedule": schedule, "variant": variant}
    plans = [make_plan(problem, choice, seed=seed, **shared) for choice in choices for seed in seeds]  # type: ignore[arg-type]
    if not plans:
        return []
    if plans[0].variant.shuffled_eval or plans[0].variant.order == "study":
        raise CockpitError("many runs at once are judged on the same samples; leave out the study's order")
    splits = plans[0].problem.data(Place(Path()), plans[0].variant)
    check_sizes(splits, plans[0].batch_size)
    averaged = _Averaged(plans[0].problem, splits, plans[0].batch_size)
    trained = _train(averaged, choices, seeds, plans[0])
    return [
        replace(plan.result(), curves=curves, diverged=diverged, log_interval=None, complete=True)
        for plan, (curves, diverged) in zip(plans, trained, strict=True)
    ]


class _Averaged:
    """A problem whose batches act through their mean sample."""

    def __init__(self, problem: Problem, splits: Splits, batch_size: int) -> None:
        self.problem, self.splits, self.batch_size = problem, splits, batch_size
        self.model = problem.model(0)
        held = {"train_loss": splits.train_eval, "valid_loss": splits.valid, "test_loss": splits.test}
        self.held = {metric: self._held(split) for metric, split in held.items() if split is not None}

    def first(self, seeds: Sequence[int]) -> Rows:
        """The parameters before training, a row for each seed."""
        models = [self.problem.model(model_seed(seed)) for seed in seeds]
        names = [name for name, _ in self.model.named_parameters()]
        return {name: torch.stack([model.get_parameter(name).detach() for model in models]) for name in names}

    def means(self, batches: Batches, *generators: torch.Generator) -> Sample:
        """The mean sample of each batch, [steps, ...]."""
        means = [(inputs.mean(0), targets.mean(0)) for inputs, targets in batches.epoch(self.batch_size, *generators)]
        inputs, targets = zip(*means, strict=True)
        return torch.stack(inputs), torch.stack(targets)

    def epoch(self, seeds: Sequence[int], copies: int, number: int, order: str) -> list[Sample]:
        """What each step of an epoch sees: a mean sample for each run."""
        means = [self.means(self.splits.train, *epoch_generators(seed, number, order)) for seed in seeds]
        inputs, targets = (torch.cat([torch.stack(part, 1)] * copies, 1) for part in zip(*means, strict=True))
        return list(zip(inputs, targets, strict=True))

    def loss(self, theta: Rows, sample: Sample) -> Tensor:
        """Of one run at one sample."""
        inputs, targets = sample
        outputs = functional_call(self.model, theta, (inputs.unsqueeze(0),))
        return self.problem.losses(outputs, targets.unsqueeze(0))[0]

    def gradients(self, theta: Rows, samples: Sample) -> tuple[Tensor, Rows]:
        """Losses [runs] and gradients of all runs, each at its own sample."""
        leaves = {name: value.detach().requires_grad_() for name, value in theta.items()}
        losses = vmap(self.loss)(leaves, samples)
        found = torch.autograd.grad(losses.sum(), list(leaves.values()))
        return losses.detach(), dict(zip(leaves, found, strict=True))

    @torch.no_grad()
    def evaluate(self, theta: Rows) -> Tensor:
        """The losses of all splits, [splits, runs]."""
        at = vmap(self.loss, in_dims=(0, None))
        return torch.stack([at(theta, sample) + rest for sample, rest in self.held.values()])

    @torch.no_grad()
    def _held(self, split: Batches) -> tuple[Sample, float]:
        """The mean sample of a split, and what its loss lacks to the mean loss: the same at all parameters."""
        inputs, targets = self.means(split)
        sample = inputs.mean(0), targets.mean(0)
        batches = split.epoch(self.batch_size)
        losses = [self.problem.losses(self.model(inputs), targets).double().mean() for inputs, targets in batches]
        own = self.loss(dict(self.model.named_parameters()), sample)
        return sample, float(torch.stack(losses).mean() - own)


@dataclass(slots=True)
class _Lane:
    """An optimizer and the rows it works on: all seeds of a choice, or one run."""

    name: str
    rows: slice | int
    parameters: dict[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    rates: rates.Rates
    needs_closure: bool

    def step(self, theta: Rows, gradients: Rows, loss: Callable[[slice | int, Rows], Tensor]) -> None:
        """Update the rows; ``loss`` is for an optimizer that computes it again."""
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name][self.rows]
        try:
            self.optimizer.step(*([lambda: self._backward(loss)] if self.needs_closure else []))
        except RuntimeError as error:
            raise CockpitError(f"{self.name} cannot train this problem: {error}") from error
        if isinstance(self.rows, int):
            for name, parameter in self.parameters.items():
                theta[name][self.rows] = parameter.detach()  # an optimizer from elsewhere may replace what it was given

    def _backward(self, loss: Callable[[slice | int, Rows], Tensor]) -> float:
        self.optimizer.zero_grad()
        value = loss(self.rows, dict(self.parameters))
        value.backward()
        return value.item()


def _lanes(choices: Sequence[Choice], theta: Rows, seeds: int, plan: Plan) -> Iterator[_Lane]:
    """The optimizers; their parameters share the memory of ``theta``."""
    for index, choice in enumerate(choices):
        block = range(index * seeds, (index + 1) * seeds)
        together = unwrapped(choice.make) in ELEMENTWISE
        for rows in [slice(block.start, block.stop)] if together else block:
            parameters = {name: nn.Parameter(value[rows]) for name, value in theta.items()}
            optimizer = choice.build(list(parameters.values()))
            paced = rates.Rates(plan.schedule, optimizer, plan.epochs)
            yield _Lane(choice.name, rows, parameters, optimizer, paced, choice.needs_closure)


def _train(
    problem: _Averaged, choices: Sequence[Choice], seeds: Sequence[int], plan: Plan
) -> list[tuple[dict[str, list[float]], int | None]]:
    """The curves of each run, and the epoch (counted from 1) in which it diverged: there is no value after it."""
    theta = {name: torch.cat([value] * len(choices)) for name, value in problem.first(seeds).items()}
    lanes = list(_lanes(choices, theta, len(seeds), plan))
    values = [problem.evaluate(theta)]
    alive = torch.ones(len(choices) * len(seeds), dtype=torch.bool)
    lasted = torch.ones(len(alive), dtype=torch.int64)
    steps: list[Sample] = []
    for epoch in range(plan.epochs):
        if epoch == 0 or plan.variant.order == "fresh":
            steps = problem.epoch(seeds, len(choices), epoch, plan.variant.order)
        running = [lane for lane in lanes if alive[lane.rows].any()]
        for lane in running:
            lane.rates.begin(epoch)
        for samples in steps:
            alive &= _step(problem, theta, running, samples).isfinite()
        values.append(problem.evaluate(theta))
        alive &= values[-1].isfinite().all(0)
        lasted += alive
        if not alive.any():
            break
    table = torch.stack(values, -1).double()  # [splits, runs, epochs]
    curves = [
        {metric: table[split, run, :length].tolist() for split, metric in enumerate(problem.held)}
        for run, length in enumerate(lasted.tolist())
    ]
    ends = [None if lives else length for lives, length in zip(alive.tolist(), lasted.tolist(), strict=True)]
    return list(zip(curves, ends, strict=True))


def _step(problem: _Averaged, theta: Rows, lanes: Sequence[_Lane], samples: Sample) -> Tensor:
    """Update all runs; returns their losses before that."""

    def loss(rows: slice | int, own: Rows) -> Tensor:
        return problem.loss(own, (samples[0][rows], samples[1][rows]))

    losses, gradients = problem.gradients(theta, samples)
    for lane in lanes:
        lane.step(theta, gradients, loss)
    return losses
