"""Columns of numbers as rows that JSON can hold."""

from typing import Any

import numpy as np

from cockpit.core.source import Values
from cockpit.panels._base import Row


def short(values: Values, digits: int = 5) -> Values:
    """Round to significant digits: what the eye cannot see need not travel."""
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(all="ignore"):
        size = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(values))))
        rounded: Values = np.round(values * size) / size
    return np.where(np.isfinite(rounded), rounded, values)


def table(**columns: Any) -> list[Row]:
    """Turn columns into rows; a column that is no array or list is the same in all rows."""
    long = {name: _plain(column) for name, column in columns.items() if isinstance(column, np.ndarray | list)}
    same = {name: column for name, column in columns.items() if name not in long}
    names = tuple(long)
    return [{**dict(zip(names, values, strict=True)), **same} for values in zip(*long.values(), strict=True)]


def _plain(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    if column.dtype.kind == "f":
        assert np.isfinite(column).all(), "a row must hold finite numbers"
        column = short(column)
    plain: list[Any] = column.tolist()
    return plain


def number(value: float) -> str:
    """A number as short as it can be read: 0.012, 3.4, 1.2k, 2.5e-05."""
    if not np.isfinite(value):
        return "inf" if value == np.inf else "-inf" if value == -np.inf else "NaN"
    if value == 0:
        return "0"
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit and size < 1e12:
            return f"{value / (1e3 if unit == 'k' else limit):.3g}{unit}"
    if size < 1e-3 or size >= 1e12:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+", "e")
    return f"{value:.0f}" if size >= 1000 else f"{value:.3g}" if size >= 0.01 else f"{value:.2g}"
