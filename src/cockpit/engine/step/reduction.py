"""From what the samples contributed to one parameter to a few numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import CockpitError
from cockpit.engine.autograd.allowance import Allowance
from cockpit.engine.needs import ABS_MAX, DOT_GRAD, LINE, SQ_NORM, SUM_SQ, Need
from cockpit.engine.statistics import extremes, sq_norm, sum_sq
from cockpit.engine.statistics._base import At, Statistic
from cockpit.engine.statistics.dot import dot
from cockpit.engine.statistics.lengths import square_norm, square_rows
from cockpit.engine.statistics.scan import Found, scan_all
from cockpit.engine.statistics.together import scan_together
from cockpit.layers.forms import AnyForm

Vectors = dict[str, Tensor]
MEAN, UPDATED = "mean", "update"  # vectors beside a parameter: mean of g_n, the optimizer's step
MEAN_SQ = "mean_sq"  # ||mean of g_n||^2
KNOWN: dict[Need, Statistic] = {
    SQ_NORM: sq_norm.SQ_NORM,
    DOT_GRAD: dot(MEAN),
    SUM_SQ: sum_sq.SUM_SQ,
    ABS_MAX: extremes.ABS_MAX,
}


@dataclass
class Reduction:
    """What is asked of every parameter of a step."""

    needs: frozenset[Need]
    allowance: Allowance
    line: Mapping[str, Tensor] = field(default_factory=dict)  # the direction of the step before, by parameter
    diagonals: Mapping[str, Vectors] = field(default_factory=dict)  # curvature, by its name
    kept: dict[Need, Vectors] = field(default_factory=dict)  # numbers of every element, while the step lasts
    paths: set[tuple[str, str]] | None = None  # where the path of each statistic is noted

    def __post_init__(self) -> None:
        self.wanted: dict[Need, Statistic] = {SQ_NORM: sq_norm.SQ_NORM}  # lengths judge whether all is seen
        for need in self.needs:
            s = need if isinstance(need, Statistic) else KNOWN.get(need)
            if s is not None and (s.beside is None or s.beside in self.diagonals):
                self.wanted[need] = s
        if self.line:
            self.wanted[LINE] = dot(LINE)
        for s in self.wanted.values():
            if any(s == other and s.chunk is not other.chunk for other in self.wanted.values()):
                raise CockpitError(f"two statistics are called {s.name!r}; give one of them another name")

    def of(self, name: str, parts: Sequence[AnyForm], parameter: Tensor, mean: Tensor, size: int) -> dict[Need, Tensor]:
        """The numbers of a parameter, from g_n in one part for each backward pass, and their mean."""
        at = self._beside(name, parameter, mean, size)
        found = scan_all(parts, list(self.wanted.values()), at, self.allowance.elements(parameter))
        return {**self._numbers(name, found), MEAN_SQ: square_norm(mean)}

    def together(
        self, names: Sequence[str], g: Tensor, parameters: Sequence[Tensor], means: Tensor, size: int
    ) -> list[dict[Need, Tensor]]:
        """The numbers of several small parameters of one shape, from all g_n [P, N, *shape] and their means."""
        at = [self._beside(*each, size) for each in zip(names, parameters, means, strict=True)]
        found = scan_together(g, list(self.wanted.values()), at)
        squares = square_rows(means.reshape(len(names), -1))
        return [
            {**self._numbers(name, here), MEAN_SQ: square}
            for name, here, square in zip(names, found, squares.unbind(0), strict=True)
        ]

    def _beside(self, name: str, parameter: Tensor, mean: Tensor, size: int) -> At:
        vectors: dict[Any, Tensor] = {MEAN: mean}
        vectors |= {key: diagonal[name] for key, diagonal in self.diagonals.items() if name in diagonal}
        if self.line:
            vectors[LINE] = self.line[name].to(mean.device) if name in self.line else torch.zeros_like(mean)
        return At(parameter.detach(), vectors, size, self.paths)

    def _numbers(self, name: str, found: Found) -> dict[Need, Tensor]:
        numbers = {need: found[s] for need, s in self.wanted.items()}
        for need, s in self.wanted.items():
            if s.keeps == "element":
                self.kept.setdefault(need, {})[name] = numbers.pop(need)
        return numbers

    def along(self, parts: Sequence[AnyForm], parameter: Tensor, vector: Tensor) -> Tensor:
        """<g_n, v>, [B]."""
        along = dot(UPDATED)
        at = At(parameter.detach(), {UPDATED: vector.to(parameter.device)})
        found: Found = scan_all(parts, [along], at, self.allowance.elements(parameter))
        return found[along]
