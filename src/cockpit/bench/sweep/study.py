"""The study file: what may stand in it, and the first thing that is wrong with it, with its line."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cockpit.bench.sweep.toml import Toml
from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.draws import SEARCHES
from cockpit.results.sweeps.plan import ONESHOT, PROTOCOL, SIZES, refined, size
from cockpit.results.sweeps.spaces import WrongSpace, axis
from cockpit.results.sweeps.words import told

KEYS = (
    *("name", "problems", "optimizers", "budgets", "schedules", "search", "seed", "seeds", "tuning_seeds"),
    *("protocol", "problem", "optimizer"),
)
# Options of a problem, as `bench run` has them, and the kind of their values.
OPTIONS: dict[str, type] = {
    **{"epochs": int, "batch_size": int, "l2": float, "order": str, "hessian": int, "amp": str, "compile": bool},
    **dict.fromkeys(("no_validation", "label_leak", "not_held_out", "shuffled_eval", "cut", "whole_eval"), bool),
    "gpus": float,
}
LEAST = {"epochs": 0, "batch_size": 1, "hessian": 0, "l2": 0, "gpus": 0}
WORDS: dict[type, str] = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
LARGEST_SEED = 2**32 - 11  # so that ten seeds from there on are seeds, too


@dataclass(frozen=True)
class Study:
    """What a study file says; names are not looked up yet."""

    file: Toml
    name: str
    problems: tuple[str, ...]
    optimizers: tuple[str, ...]
    budgets: tuple[str, ...]
    schedules: tuple[str, ...]
    search: str
    seed: tuple[int, ...]
    seeds: int
    tuning_seeds: int
    protocol: str | None
    options: Mapping[str, Mapping[str, Any]]  # by problem
    spaces: Mapping[str, Mapping[str, Any]]  # by optimizer

    @property
    def tuned(self) -> bool:
        """Whether a budget tries settings."""
        return any(budget != ONESHOT for budget in self.budgets)

    @property
    def folder(self) -> Path:
        """Where modules of the study are looked for first."""
        return self.file.path.absolute().parent


def read(path: Path) -> Study:
    """Read a study file."""
    file = Toml(path)
    for key in file.data:
        if key not in KEYS:
            raise file.wrong((key,), f"unknown key {told(key, KEYS)}")
    for key in ("problems", "optimizers"):
        if key not in file.data:
            example = {"problems": '["quadratic_deep"]', "optimizers": '["SGD", "Adam"]'}[key]
            raise file.wrong((key,), f"missing; add a line like {key} = {example}")
    protocol = _word(file, "protocol", None, (PROTOCOL,))
    search = _word(file, "search", "study" if protocol else "random", SEARCHES)
    if protocol and search != "study":
        raise file.wrong(("search",), f"{search!r}; the protocol {protocol} draws as the study did, leave search out")
    assert search is not None
    return Study(
        file,
        _name(file),
        _words(file, "problems", ()),
        _words(file, "optimizers", ()),
        _budgets(file),
        _words(file, "schedules", ("constant",)),
        search,
        _seed(file),
        _count(file, "seeds", 10),
        _count(file, "tuning_seeds", 1),
        protocol,
        _options(file),
        _spaces(file),
    )


def _word(file: Toml, key: str, default: str | None, known: Sequence[str]) -> str | None:
    value: Any = file.data.get(key, default)
    if value is not default and value not in known:
        raise file.unknown((key,), value, known)
    return None if value is None else str(value)


def _name(file: Toml) -> str:
    name = file.data.get("name", file.path.stem)
    if not isinstance(name, str) or not re.fullmatch(r"[\w+@][\w .,+@-]*", name):
        raise file.wrong(("name",), f"{name!r}; it names a folder: give letters, digits, '-', '_' or '.'")
    return name


def _list(file: Toml, key: str, default: tuple[Any, ...]) -> list[Any]:
    values = file.data.get(key, list(default))
    if not isinstance(values, list) or not values:
        example = f'["{values}"]' if isinstance(values, str) else "[...]"
        raise file.wrong((key,), f"{values!r}; give a list with at least one entry, {key} = {example}")
    for place, value in enumerate(values):
        if value in values[:place]:
            raise file.wrong((key,), f"{value!r} stands there twice; once is enough")
    return values


def _words(file: Toml, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    values = _list(file, key, default)
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise file.wrong((key,), f"{value!r}; give names in quotes", value)
    return tuple(values)


def _budgets(file: Toml) -> tuple[str, ...]:
    values = _list(file, "budgets", (ONESHOT, "small"))
    for value in values:
        if isinstance(value, str) and value not in (ONESHOT, *SIZES):
            raise file.unknown(("budgets",), value, (ONESHOT, *SIZES), " or a number of settings")
        if not isinstance(value, str) and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise file.wrong(("budgets",), f"{value!r}; give a number of settings, 1 or more, or a word", value)
    sizes = {value: size(f"{value}") for value in values if value != ONESHOT and not refined(f"{value}")}
    for value, settings in sizes.items():
        twin = next(other for other in sizes if sizes[other] == settings)
        if twin != value:
            said = f"{twin!r} and {value!r} are the same budget, {settings} settings; once is enough"
            raise file.wrong(("budgets",), said, value)
    return tuple(map(str, values))


def _whole(file: Toml, keys: tuple[str, ...], value: Any, least: int, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise file.wrong(keys, f"{value!r}; give a whole number, {least} or more", value)
    if most is not None and value > most:
        raise file.wrong(keys, f"{value!r}; give a whole number, {most} or less", value)
    return value


def _count(file: Toml, key: str, default: int) -> int:
    return _whole(file, (key,), file.data.get(key, default), 1)


def _seed(file: Toml) -> tuple[int, ...]:
    value = file.data.get("seed", 42)
    values = _list(file, "seed", ()) if isinstance(value, list) else [value]
    return tuple(_whole(file, ("seed",), one, 0, LARGEST_SEED) for one in values)


def _tables(file: Toml, key: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    tables = file.data.get(key, {})
    if not isinstance(tables, dict):
        raise file.wrong((key,), f"{tables!r}; give tables, [{key}.NAME]")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise file.wrong((key, name), f"{table!r}; give a table, [{key}.NAME], with NAME out of {', '.join(names)}")
    return tables


def _options(file: Toml) -> dict[str, dict[str, Any]]:
    tables = _tables(file, "problem", file.data["problems"])
    for name, table in tables.items():
        for key, value in table.items():
            keys = ("problem", name, key)
            if key not in OPTIONS:
                raise file.wrong(keys, f"unknown option {told(key, OPTIONS)}")
            kind = OPTIONS[key]
            fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
            if not fits or (isinstance(value, bool) and kind is not bool):
                raise file.wrong(keys, f"{value!r}; give {WORDS[kind]}")
            if key in LEAST and not LEAST[key] <= value < float("inf"):
                raise file.wrong(keys, f"{value!r}; give {WORDS[kind]}, {LEAST[key]} or more")
    return tables


def _spaces(file: Toml) -> dict[str, dict[str, Any]]:
    tables = _tables(file, "optimizer", file.data["optimizers"])
    for name, table in tables.items():
        for key, value in table.items():
            try:
                axis(value)
            except WrongSpace as error:
                raise file.wrong(("optimizer", name, key), str(error)) from error
    return tables


def folder_of(name: str, out: Path | None, runs: str | None) -> Path:
    """Where the store of a study is."""
    return out if out is not None else Path(runs or "runs") / "sweeps" / name


def is_study(path: Path) -> bool:
    """Whether a path is a study file, not the folder of a sweep."""
    if path.is_dir():
        return False
    if not path.exists():
        raise CockpitError(f"{path} does not exist; give a study file, or the folder of a sweep")
    return True
