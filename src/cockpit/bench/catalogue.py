"""``cockpit bench optimizers``: the rules, what torch has besides, and what a user names by its path."""

import inspect
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from cockpit.core.errors import CockpitError

if TYPE_CHECKING:  # torch is loaded where a command needs it
    from cockpit.optimizers.rule import Known

CLOSE = 6  # significant digits of a number that is printed


@click.command("optimizers")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_optimizers(name: str | None, as_json: bool) -> None:
    """List all optimizers, or describe one.

    NAME: a name of the list, or package.module:Class.
    """
    found = rows() if name is None else [row(name)]
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif name is None:
        show(found)
    else:
        click.echo(told(found[0]))


def rows() -> list[dict[str, Any]]:
    """A row for each optimizer that has a name: the rules, then those of torch alone."""
    from cockpit.bench.optimizers import named
    from cockpit.optimizers import KNOWN

    return [row(name) for name in [*KNOWN, *(name for name in named() if name not in KNOWN)]]


def row(name: str) -> dict[str, Any]:
    """What is known of an optimizer; ``packs``: whether many runs of it are updated in one call."""
    from cockpit.bench.optimizers import choose, chosen, flat
    from cockpit.optimizers import find

    rule = find(name)
    if rule is not None:
        return _of_rule(rule)
    called, make = chosen(name)
    given = {
        key: taken.default
        for key, taken in list(inspect.signature(make).parameters.items())[1:]
        if isinstance(taken.default, int | float | tuple) and not isinstance(taken.default, bool)
    }
    with suppress(CockpitError):  # it has no rate of its own
        given |= choose(name).hyperparameters
    path = called if ":" in called else f"torch.optim:{called}"
    return {"name": called, "rule": path, "paper": None, "defaults": flat(given), "space": {}, "packs": False}


def _of_rule(rule: "Known") -> dict[str, Any]:
    from cockpit.optimizers.rule import Rule

    return {
        "name": rule.name,
        "rule": f"version {rule.version}: {rule.summary}",
        "paper": rule.paper,
        "defaults": rule.defaults,
        "space": rule.space,
        "packs": isinstance(rule, Rule),
    }


def show(found: list[dict[str, Any]]) -> None:
    """Print a table."""
    from rich import box
    from rich.table import Table

    from cockpit.plots.console import console

    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("optimizer", "defaults", "searched"):
        table.add_column(heading, overflow="fold")
    for one in found:
        table.add_row(one["name"], _pairs(one["defaults"]), ", ".join(one["space"]) or "-")
    console().print(table)
    click.echo("More about one: cockpit bench optimizers NAME. Torch's of the same name: torch.optim:NAME.")


def told(one: dict[str, Any]) -> str:
    """Everything about one."""
    space = [f"  {name} = {_space(drawn)}" for name, drawn in one["space"].items()]
    lines = [
        one["name"] + (f" ({one['paper']})" if one["paper"] else ""),
        f"rule      {one['rule']}",
        f"defaults  {_pairs(one['defaults'])}",
        *(["space", *space] if space else ["space     none; a sweep that tunes it needs one"]),
    ]
    return "\n".join(lines)


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in values.items())


def _text(value: Any) -> str:
    return f"{value:.{CLOSE}g}" if isinstance(value, float) else str(value)


def _space(drawn: dict[str, list[Any]]) -> str:
    """As a study file has it."""
    ((kind, bounds),) = drawn.items()
    return f"{{ {kind} = [{', '.join(map(_text, bounds))}] }}"
