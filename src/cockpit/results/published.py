"""Published figures to compare with: table 5.2 (DeepOBS) and tables B.2 to B.6 (Crowded Valley) of one dissertation."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_PERCENT = "_percent"
# Where the validation set was trained on as well, table 5.2 is the nearest; else what was tuned most, by schedule.
_CROWDED = {"constant": "B.2", "cosine": "B.4", "trapezoidal": "B.5", "ltr": "B.5"}
EPOCHS: Mapping[str, int] = {  # that were trained for all of them
    **{"quadratic_deep": 100, "mnist_vae": 50, "fmnist_2c2d": 100, "cifar10_3c3d": 100},
    **{"fmnist_vae": 100, "cifar100_allcnnc": 350, "svhn_wrn164": 160, "tolstoi_char_rnn": 200},
}


@dataclass(frozen=True, slots=True)
class Published:
    """A figure of a published table; accuracies from 0 to 1, as in curves."""

    table: str  # "5.2", "B.2", ...
    problem: str
    optimizer: str
    metric: str  # "test_accuracy", "test_loss" or "train_loss", after the last epoch
    mean: float  # over ten seeds
    std: float
    budget: str  # how it was tuned: "grid" (36 learning rates), "small", "medium" or "large" (random search)
    schedule: str
    speed: float | None = None  # epochs until the convergence performance was reached
    lr: float | None = None
    caveat: str | None = None  # why it cannot be compared with runs of the problem as it is
    printed: tuple[str, str] = ("", "")  # mean and deviation as they stand there, accuracies in per cent

    @property
    def epochs(self) -> int:
        """How long was trained."""
        return EPOCHS[self.problem]


# Of the quadratic, the k-th problem of one process got a matrix of its own, so that settings tuned in one process were
# compared on different problems; these optimizers were tuned once more, on the first matrix alone.
ON_ONE_MATRIX = ("Momentum", "NAG", "RMSprop", "Adadelta", "AdaBelief", "LA(Momentum)")
LEAST = 86.8735  # test loss on the first matrix, for the best parameters that there are
DRIFTING = "tuned on matrices that differ from setting to setting"
IMPOSSIBLE = f"{DRIFTING}; on the first of them no parameters get below {LEAST}"


@cache
def _table52() -> tuple[Published, ...]:
    # Standard deviations, and the learning rates of CIFAR-10, are not printed there: recomputed from the authors' runs.
    return tuple(_entry(row, "grid", "constant", float(row["speed"]), float(row["lr"])) for row in _rows("table52.csv"))


@cache
def _crowded_valley() -> tuple[Published, ...]:
    return tuple(_entry(row, row["budget"], row["schedule"]) for row in _rows("crowded_valley.csv"))


def table52() -> list[Published]:
    """SGD, Momentum and Adam on eight problems (DeepOBS 1.1: nothing held out for validation)."""
    return list(_table52())


def crowded_valley() -> list[Published]:
    """Fifteen optimizers on eight problems, by budget and schedule (DeepOBS 1.2, with a validation set)."""
    return list(_crowded_valley())


def nearest(
    problem: str, optimizer: str, metric: str, schedule: str = "constant", variant: Mapping[str, Any] | None = None
) -> Published | None:
    """The published figure whose protocol is nearest; None where there is none.

    Table 5.2 for runs that held nothing out (``validation`` is False in the variant), otherwise the Crowded Valley
    table of the same schedule; each stands in where the other has nothing.
    """
    order = ["5.2", _CROWDED.get(schedule, ""), "B.6"] if schedule == "constant" else [_CROWDED.get(schedule, "")]
    if (variant or {}).get("validation", True):
        order.reverse()  # the tables differ in metric, so that B.6 (training loss) is in nobody's way
    wanted = (problem, optimizer.lower(), metric)
    entries = [*_table52(), *_crowded_valley()]
    found = {one.table: one for one in entries if (one.problem, one.optimizer.lower(), one.metric) == wanted}
    return next((found[table] for table in order if table in found), None)


def _rows(name: str) -> list[dict[str, str]]:
    text = (files("cockpit.results") / "published" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _entry(
    row: Mapping[str, str], budget: str, schedule: str, speed: float | None = None, lr: float | None = None
) -> Published:
    unit = 100.0 if row["metric"].endswith(_PERCENT) else 1.0
    named = (row["table"], row["problem"], row["optimizer"], row["metric"].removesuffix(_PERCENT))
    figures = (float(row["mean"]) / unit, float(row["std"]) / unit)
    return Published(
        *named, *figures, budget, schedule, speed, lr, _caveat(*named, figures[0]), (row["mean"], row["std"])
    )


def _caveat(table: str, problem: str, optimizer: str, metric: str, mean: float) -> str | None:
    """What is to be known of a figure of the quadratic."""
    tuned_anew = optimizer.lower() in map(str.lower, ON_ONE_MATRIX)
    if problem != "quadratic_deep" or table == "5.2" or tuned_anew:
        return None
    return IMPOSSIBLE if metric == "test_loss" and mean < LEAST else DRIFTING
