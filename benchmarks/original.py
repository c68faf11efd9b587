"""The original implementation (cockpit-for-pytorch) on the same nets, timed in the same way, in its own environment.

    python -m venv .venv-original
    .venv-original/bin/pip install -c constraints.txt torch==2.13.0
    .venv-original/bin/pip install -c constraints.txt cockpit-for-pytorch backpack-for-pytorch 'setuptools<81'
    .venv-original/bin/python benchmarks/original.py --out FILE

Where nothing can be installed but torch and NumPy are there (a GPU machine, say): make a folder elsewhere, take it
along and give it as the path. What the original imports and no measurement uses (drawing, saving) is replaced by
nothing.

    pip install --target original --no-deps cockpit-for-pytorch backpack-for-pytorch einops unfoldNd
    PYTHONPATH=original python benchmarks/original.py --device cuda --out FILE
"""

import importlib
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from nets import Problem
from torch import nn


class Blank:
    """A class to inherit from."""

    def __init__(self, *_: Any) -> None:
        pass


UNUSED: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("json_tricks", "pandas", "seaborn", "matplotlib")},
    **{f"matplotlib.{name}": {} for name in ("colors", "pyplot", "ticker")},
    "pkg_resources": {"DistributionNotFound": LookupError},  # gone from setuptools 82 on
    "scipy": {},
    "scipy.sparse": {},
    "scipy.sparse.linalg": {"LinearOperator": Blank},  # the largest eigenvalue is found by power iteration
}


class Nothing(types.ModuleType):
    """A module that has everything and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Whatever is called gives nothing."""
        return Nothing("result")


def stand_in() -> None:
    """Put something in the place of modules that are missing and that no measurement uses."""
    for name, entries in UNUSED.items():
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = Nothing(name)
            vars(sys.modules[name]).update(entries)


warnings.filterwarnings("ignore")
stand_in()

import backpack  # noqa: E402
from measuring import PRESETS, intervals, nets, peaks, run  # noqa: E402
from measuring import quantities as quantities_alone  # noqa: E402

import cockpit  # noqa: E402
from cockpit import quantities  # noqa: E402
from cockpit.utils.configuration import configuration  # noqa: E402


@dataclass
class Watched:
    """Training with the original's context around the backward pass, as its documentation shows it."""

    problem: Problem
    pit: Any
    each: nn.Module = field(default_factory=lambda: backpack.extend(nn.CrossEntropyLoss(reduction="none")))
    number: int = 0
    undefined: dict[str, str] = field(default_factory=dict)

    def step(self) -> None:
        """One step of training."""
        problem, number = self.problem, self.number
        inputs, labels = next(problem.batches)
        problem.optimizer.zero_grad()
        outputs = problem.model(inputs)
        loss = problem.loss_fn(outputs, labels)
        info = {"batch_size": len(labels), "individual_losses": self.each(outputs, labels)}
        with self.pit(number, info=info | {"loss": loss, "optimizer": problem.optimizer}):
            loss.backward(create_graph=self.pit.create_graph(number))
        problem.optimizer.step()
        self.number += 1


class Original:
    """``cockpit.Cockpit`` of the original, without the saving at the end."""

    name = "original"
    quantities = tuple(sorted(quantities.__all__))

    def pair(self, net: str, device: str, optimizer: str) -> tuple[Problem, Problem]:
        """A plain model, and its twin whose layers are extended."""
        return Problem(net, device, optimizer), self.prepared(Problem(net, device, optimizer))

    def prepared(self, problem: Problem) -> Problem:
        """Extend the layers and the loss."""
        problem.model, problem.loss_fn = backpack.extend(problem.model), backpack.extend(problem.loss_fn)
        return problem

    @contextmanager
    def watch(self, problem: Problem, what: str, every: Any) -> Iterator[Watched]:
        """Watch a problem; ``what`` is a configuration or the name of a quantity."""
        if what in PRESETS:
            chosen = configuration(what, track_schedule=every)
        else:
            chosen = [getattr(quantities, what)(track_schedule=every)]
        yield Watched(problem, cockpit.Cockpit(problem.model.parameters(), quantities=chosen))


TOOL = Original()
GROUPS = {"nets": nets, "quantities": quantities_alone, "intervals": intervals, "memory": peaks}

if __name__ == "__main__":
    run(TOOL, GROUPS, __doc__)
