"""Per-sample gradients of many columns at once: a rule runs once, over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Path
from cockpit.engine.autograd.pull import gradient_of
from cockpit.engine.scattered import dense
from cockpit.engine.sending import Grads
from cockpit.layers import Dense, Factored
from cockpit.layers._rule import rule_for
from cockpit.layers.layout import Layout


@dataclass(frozen=True, slots=True)
class Many:
    """g_nk = factor * sum_t row_nkt col_nt^T, or g_nk = row where there is no ``col``; k counts columns."""

    row: Tensor  # [K, N, G, T, O], or [K, N, *shape]
    col: Tensor | None = None  # [N, G, T, I]
    factor: float = 1.0
    turned: bool = False  # g_nk = (row^T col)^T


def forms_of(uses: Sequence[tuple[Path, Grads, tuple[Layout | None, ...]]]) -> Many | None:
    """The sum of the uses of a parameter; None where columns must go one by one."""
    parts = []
    for path, grads, layouts in uses:
        if rule_for(path.node.name()) is None:
            return None
        try:
            found = _all_columns(path, grads, layouts)
        except RuntimeError:  # a rule that looks at numbers cannot run on many columns
            found = None
        if found is None:
            return None
        parts.append(found)
    return parts[0] if len(parts) == 1 else _joined(parts)


def _all_columns(path: Path, grads: Grads, layouts: tuple[Layout | None, ...]) -> Many | None:
    places = [place for place, grad in enumerate(grads) if grad is not None]
    given = [dense(grad) for grad in grads if grad is not None]
    seen: list[tuple[type, float]] = []

    def one(*columns: Tensor) -> tuple[Tensor, ...]:
        filled: list[Tensor | None] = [None] * len(grads)
        for place, column in zip(places, columns, strict=True):
            filled[place] = column
        form = gradient_of(path, tuple(filled), layouts)
        seen.append((type(form), getattr(form, "factor", 1.0)))
        if isinstance(form, Factored):
            return form.row, form.col
        if not isinstance(form, Dense):
            raise RuntimeError("a form that differs from column to column")
        return (form.value,)

    found = torch.vmap(one)(*given)
    kind, factor = seen[0]
    if kind is Dense:
        return Many(found[0])
    row, col = found
    if len(given[0]) == 1 or col.stride(0) == 0:  # the same for all columns
        return Many(row, col[0], factor)
    return Many(col, row[0], factor, turned=True) if row.stride(0) == 0 else None


def _joined(parts: list[Many]) -> Many | None:
    if all(part.col is None for part in parts):
        return Many(torch.stack([part.row for part in parts]).sum(0))
    first, cols = parts[0], [part.col for part in parts if part.col is not None]
    alike = {(part.turned, part.factor, part.row.shape[2]) for part in parts}
    if len(cols) < len(parts) or len(alike) > 1:
        return None
    return Many(torch.cat([part.row for part in parts], dim=3), torch.cat(cols, dim=2), first.factor, first.turned)
