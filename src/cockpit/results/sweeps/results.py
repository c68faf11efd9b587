"""The runs of a sweep as results like any other, for tables and figures of ``cockpit bench``."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cockpit.results.result import Result
from cockpit.results.sweeps.store import Store

# Parts of a variant that the options of `cockpit bench run` turn off.
_OFF = {"no_validation": "validation", "not_held_out": "held_out"}


def results(folder: Path) -> Iterator[Result]:
    """All runs in the store of a folder that finished or diverged, each on its own."""
    store = Store(folder)
    targets = {task.name: task.target for task in store.plan().problems}
    for one in store.records():
        if one["state"] != "failed":
            yield _result(one, targets)


def _result(one: Mapping[str, Any], targets: Mapping[str, float | None]) -> Result:
    known = one["identity"]
    rule, problem = known["optimizer_version"], known["problem_version"]
    return Result(
        problem=one["problem"],
        optimizer=one["optimizer"],
        hyperparameters=dict(one["hyperparameters"]),
        seed=one["seed"],
        batch_size=known["batch"],
        epochs=one["epochs"],
        curves={metric: [float(value) for value in curve] for metric, curve in one["curves"].items()},
        schedule=one["schedule"],
        variant=_variant(known),
        diverged=one["diverged"],
        seconds=[one["seconds"]],
        code=rule if isinstance(rule, str) else None,
        rule=rule if isinstance(rule, int) else None,
        problem_code=problem if isinstance(problem, str) else None,
        target=targets.get(one["problem"]),
    )


def _variant(known: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from the problem as it is, by the names that a result has."""
    found: dict[str, Any] = {}
    for name, value in known["options"].items():
        found |= {_OFF[name]: not value} if name in _OFF else {name: value}
    found |= {} if known["order"] == "fresh" else {"order": known["order"]}
    found |= {"hessian": known["matrix"]} if known["matrix"] else {}
    return found | ({} if known["precision"] == "float32" else {"dtype": known["precision"]})
