"""Several steps that are alike, measured together: one row of numbers for each.

Python takes as long for an operation on one number as for one on a hundred. What is unusual about a step, say a number
that is not finite, raises ``Undefined`` here; whoever asked then looks at the steps one by one.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cockpit.core.errors import Undefined
from cockpit.engine.line import unseen_by
from cockpit.engine.needs import GRADIENT, LOSSES, UPDATE
from cockpit.engine.numbers import Columns, Key, Values
from cockpit.engine.observation import LOSS, Observation
from cockpit.engine.reduction import CENTRE, SCATTER, SQUARES


def alike(one: Observation, other: Observation) -> bool:
    """Whether the numbers of both steps mean the same, and all of them are there."""
    return (
        one.flaw is None is other.flaw
        and one.batch_size == other.batch_size
        and one.loss_scale == other.loss_scale
        and one.names == other.names
        and one.all_names == other.all_names
        and one.moved_names == other.moved_names
        and one.regularised == other.regularised
        and one.rounding == other.rounding
        and one.half is other.half
        and one._shares == other._shares
        and one.numbers.alike(other.numbers)
    )


class Lines(NamedTuple):
    """The steps before, each seen along its own direction; the rows of both ends are the fields of a ``LineEnd``."""

    lengths: Values
    starts: Values
    ends: Values


class Block:
    """Steps that are alike."""

    def __init__(self, steps: Sequence[Observation]) -> None:
        self.steps = steps
        self.batch_size = steps[0].batch_size
        self.names = tuple(steps[0].names)
        self.lines: Lines | None = None  # where each of them ends one
        self._first = steps[0]
        self._numbers = Columns([step.numbers for step in steps])

    def rows(self, key: Key) -> Values:
        """The numbers of a key, one row for each step."""
        if key not in self._numbers:
            raise Undefined(f"{key} is not known of these steps")
        return self._numbers[key]

    @cached_property
    def loss(self) -> Values:
        """The number that was backpropagated."""
        return self.rows(LOSS)[:, 0] / self._first.loss_scale

    def norms(self, key: Key) -> list[dict[str, float]]:
        """Euclidean length of the ``GRADIENT``, the ``UPDATE`` or the ``DISTANCE`` of each parameter."""
        names = self._first.moved_names if key == UPDATE else self._first.all_names
        return [dict(zip(names, row, strict=True)) for row in finite(np.sqrt(self.rows(key))).tolist()]

    # ---- individual gradients

    def settled(self) -> bool:
        """Whether no gradient has a part that no sample contributed, apart from those known to; see ``unsettled``."""
        centre, squares = self.rows(CENTRE), self._covered(GRADIENT)
        means, sizes = centre[:, : len(self.names)], centre[:, len(self.names) :]
        bound = self._first.rounding * np.maximum(np.maximum(squares, sizes), 1e-300)
        close = (np.abs(squares - means) <= bound) | ~np.isfinite(squares) | self._regularised
        return bool(close.all())

    def sum_of_squares(self) -> Values:
        """sum_n ||g_n||^2 over all covered parameters."""
        return self.rows(SCATTER)[:, 0] if SCATTER in self._numbers else _sums(self.rows(SQUARES))

    @cached_property
    def scatter(self) -> tuple[Values, Values]:
        """sum_n ||g_n||^2 / ||g||^2 and sum_n <g_n, g>^2 / ||g||^4, with g the mean of g_n."""
        through, mean_sq = self.rows(CENTRE), self._covered(GRADIENT)
        if self._first.regularised:
            mean_sq = np.where(self._regularised, through[:, : len(self.names)], mean_sq)
        mean = _positive(_sums(mean_sq))
        norms, along = self.rows(SCATTER).T
        return norms / mean, along / mean / mean

    # ---- along the step

    def lengths(self) -> Values:
        """Length of the updates."""
        return _positive(np.sqrt(_sums(self.rows(UPDATE))))

    def ends(self, lengths: Values, key: str) -> Values:
        """Loss and slope here along steps of the given lengths, with their variances; see ``Observation.end``."""
        size, unit = self.batch_size, self.batch_size / self._first.loss_scale
        if size < 2 or self._first._shares is not None:
            raise Undefined("there are no individual losses, or there is only one")
        seen, spread, typical = self.rows((LOSSES, "moments")).T
        seen, spread, typical = seen * unit, spread * unit**2, typical * unit
        unseen = np.abs(seen - self.loss) > unseen_by(self._first.half) * np.maximum(typical, np.abs(self.loss))
        if not self._first.regularised and unseen.any():
            raise Undefined("a part of the loss was not seen")
        slope, scatter, _ = self.rows((key, "moments")).T
        return np.array([seen, slope / lengths, spread / size, scatter / (lengths * lengths) / size])

    # ---- helpers

    @cached_property
    def _regularised(self) -> NDArray[np.bool_]:
        return np.array([name in self._first.regularised for name in self.names])

    def _covered(self, key: Key) -> Values:
        """The columns of parameters with individual gradients."""
        rows, everything = self.rows(key), self._first.all_names
        if len(everything) == len(self.names):
            return rows
        return rows[:, [everything.index(name) for name in self.names]]


def finite(values: Values) -> Values:
    """The same values, none of which needs a word."""
    if not np.isfinite(values).all():
        raise Undefined("not finite")
    return values


def _positive(values: Values) -> Values:
    if not (finite(values) > 0).all():
        raise Undefined("not positive")
    return values


def _sums(rows: Values) -> Values:
    """Sum of each row, added up as it is for a single step."""
    return np.array([sum(row) for row in rows.tolist()])
