"""A statistic of all individual gradients g_n of a parameter, as one value: a definition, and how its parts join."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from cockpit.layers.forms import AnyForm, Indexed

Place = slice | EllipsisType  # rows of the parameter's first axis; all of them


@dataclass(frozen=True)
class At:
    """What lies beside a chunk of g_n: the parameter and vectors of its shape, cut to the same rows."""

    parameter: Tensor
    vectors: Mapping[str, Tensor] = field(default_factory=dict)  # "mean": mean of g_n; directions, "curvature"
    size: int = 0  # samples of the step
    paths: set[tuple[str, str]] | None = None  # where the path of each statistic is noted

    def took(self, path: str, statistics: "Iterable[Statistic]") -> None:
        """Note which path statistics took: few rows, an identity on factors, or the definition."""
        if self.paths is not None:
            self.paths.update((s.name, path) for s in statistics)

    def cut(self, rows: Place) -> "At":
        """The same beside some rows."""
        if rows is ...:
            return self
        return replace(self, parameter=self.parameter[rows], vectors={k: v[rows] for k, v in self.vectors.items()})


class Shortcut(NamedTuple):
    """An exact identity on the factors of a form, with the multiplications that it takes."""

    operations: int
    compute: Callable[[], Tensor]


Stacked = Callable[[Tensor, Mapping[str, Tensor]], Tensor]  # [P, n, D] and vectors [P, D] -> [P, ...]


@dataclass(frozen=True)
class Statistic:
    """A reduction of all g_nj of a parameter: its definition on a chunk [n, *rows] of formed g_n, which it only reads.

    Equal names and arguments, equal statistic: it is the key of its numbers. ``keeps`` says what is left of a chunk:
    one number for each ``"sample"``, for each ``"element"`` of the parameter, or a ``"total"`` of any shape.
    """

    name: str
    keeps: Literal["sample", "element", "total"]
    chunk: Callable[[Tensor, At], Tensor] = field(compare=False)
    arguments: tuple[Any, ...] = ()
    join: Callable[[Tensor, Tensor], Tensor] = field(default=torch.add, compare=False)
    rows: Callable[[Indexed, At], Tensor] | None = field(default=None, compare=False)  # the same of coalesced rows
    shortcut: Callable[[AnyForm, At, int], Shortcut | None] = field(default=lambda *_: None, compare=False)
    stacked: "Stacked | None" = field(default=None, compare=False)  # the chunks of several small parameters at once
    of: "Statistic | None" = None  # what ``finish`` turns into few numbers, once for each parameter
    finish: Callable[[Tensor, At], Tensor] | None = field(default=None, compare=False)
    beside: str | None = field(default=None, compare=False)  # a vector without which it is not computed


def finished(
    name: str, of: Statistic, finish: Callable[[Tensor, At], Tensor], *arguments: Any, beside: str | None = None
) -> Statistic:
    """A statistic that is computed from another one, once for each parameter."""
    return Statistic(name, "total", of.chunk, arguments, of=of, finish=finish, beside=beside)
