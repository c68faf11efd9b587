"""Run a case of the table under cockpit, and compare with the reference."""

from __future__ import annotations

from math import inf, isfinite, isnan
from typing import Any

import numpy as np
from tests.cases import Case

import cockpit
from cockpit.quantities import QUANTITIES, EarlyStopping, HessTrace, MeanGSNR, TICDiag, TICTrace
from cockpit.quantities._base import Quantity
from cockpit.tracking.watched import Watch

NEAR = 1e-3  # share of all elements that single precision may put into a neighbouring bin
ROOTS = {"NormTest", "InnerTest", "OrthoTest"}  # of differences: rounding decides their small values


def variant(base: type[Quantity], label: str, **options: Any) -> Quantity:
    """A quantity with options, under a name of its own."""
    named = type(base.__name__, (base,), {"name": property(lambda self: label)})
    return named(**options)  # type: ignore[no-any-return]


def all_quantities() -> list[Quantity]:
    """The nineteen, and the variants that the reference knows."""
    return [
        *(quantity() for quantity in QUANTITIES.values()),
        variant(EarlyStopping, "EarlyStopping[epsilon=1e-05]", epsilon=1e-5),
        variant(MeanGSNR, "MeanGSNR[epsilon=1e-05]", epsilon=1e-5),
        *(variant(q, f"{q.__name__}[hessian]", curvature="hessian") for q in (HessTrace, TICDiag, TICTrace)),
    ]


def watched_run(case: Case, quantities: Any = None, **options: Any) -> Watch:
    """Train the case with every step tracked; returns the closed watch."""
    setup = case.build()
    chosen = all_quantities() if quantities is None else quantities
    loss_fn = setup.loss_fn if case.gives_loss else None
    pit = cockpit.watch(
        setup.model, setup.optimizer, loss_fn, quantities=chosen, every=1, batch_axis=case.batch_axis, **options
    )
    with pit:
        case.style.run(*setup, lambda: None)
    return pit


def mismatch(case: Case, name: str, found: Any, expected: Any, rounding: float = 0.0) -> str | None:
    """Say how a value differs from the reference, or None; by less than ``rounding`` it may."""
    base = name.split("[")[0]
    tolerance = case.loose.get(name, case.loose.get(base, case.tolerance))
    if base == "HessMaxEV":
        tolerance = max(tolerance, 1e-3)
    if tolerance == inf or base == "Time":
        return None
    if hasattr(expected, "counts"):
        if rounding:
            return _histograms(found, expected, int(NEAR * expected.counts.sum()) + 1)
        if case.dtype.itemsize < 8 or case.tolerance >= 1e-4:
            return None if found.counts.sum() == expected.counts.sum() else "another number of elements"
        return _histograms(found, expected, 0)
    if isinstance(expected, dict):
        for key, value in expected.items():
            inner = mismatch(case, name, found.get(key, found.get(f"_orig_mod.{key}")), value, rounding)
            if inner:
                return f"{key}: {inner}"
        return None
    if base in ROOTS:
        rounding = 1e-3 if rounding else 1e-7
    close = np.isclose(found, expected, rtol=tolerance, atol=max(1e-12, 1e-6 * tolerance, rounding), equal_nan=True)
    return None if close else f"{found} instead of {expected}"


def _histograms(found: Any, expected: Any, spare: int) -> str | None:
    """Elements on an edge may fall on either side of it, and ``spare`` others."""
    for part, counts in expected.parts.items():
        own = found.parts.get(part, found.parts.get(f"_orig_mod.{part}"))
        off = int(np.abs(own - counts).sum())
        if off > 2 * (expected.unsure + spare) or own.sum() != counts.sum():
            return f"{part}: {off} counts in another bin"
    return None


def undefined(value: Any) -> bool:
    """None, or not a number."""
    return value is None or (isinstance(value, float) and not isfinite(value) and isnan(value))
