"""The nineteen quantities and the three presets; a new quantity takes an import line below."""

from collections.abc import Iterable
from typing import Any

from cockpit.core.errors import CockpitError, unknown
from cockpit.core.kinds import Cost
from cockpit.quantities._base import Quantity
from cockpit.quantities.alpha import Alpha as Alpha
from cockpit.quantities.cabs import CABS as CABS
from cockpit.quantities.distance import Distance as Distance
from cockpit.quantities.early_stopping import EarlyStopping as EarlyStopping
from cockpit.quantities.grad_hist import GradHist1d as GradHist1d
from cockpit.quantities.grad_hist import GradHist2d as GradHist2d
from cockpit.quantities.grad_norm import GradNorm as GradNorm
from cockpit.quantities.gradient_tests import InnerTest as InnerTest
from cockpit.quantities.gradient_tests import NormTest as NormTest
from cockpit.quantities.gradient_tests import OrthoTest as OrthoTest
from cockpit.quantities.hess_max_ev import HessMaxEV as HessMaxEV
from cockpit.quantities.hess_trace import HessTrace as HessTrace
from cockpit.quantities.loss import Loss as Loss
from cockpit.quantities.mean_gsnr import MeanGSNR as MeanGSNR
from cockpit.quantities.parameters import Parameters as Parameters
from cockpit.quantities.tic import TICDiag as TICDiag
from cockpit.quantities.tic import TICTrace as TICTrace
from cockpit.quantities.time import Time as Time
from cockpit.quantities.update_size import UpdateSize as UpdateSize

QUANTITIES: dict[str, type[Quantity]] = {
    name: entry
    for name, entry in sorted(globals().items())
    if isinstance(entry, type) and issubclass(entry, Quantity) and entry is not Quantity
}
PRESETS = {cost.name.lower(): cost for cost in Cost}
__all__ = list(QUANTITIES)


def preset(name: str) -> list[type[Quantity]]:
    """Return the quantities of ``"economy"``, ``"business"`` or ``"full"``; each preset includes those before it."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    level = PRESETS[name].value
    return [quantity for quantity in QUANTITIES.values() if quantity.cost is not None and quantity.cost.value <= level]


def resolve(quantities: str | Iterable[Any]) -> list[Quantity]:
    """Return the quantities that a preset, or a list of names, classes and instances, stands for."""
    if isinstance(quantities, str):
        if quantities in QUANTITIES:
            return [QUANTITIES[quantities]()]
        if quantities not in PRESETS:
            raise unknown("preset or quantity", quantities, [*PRESETS, *QUANTITIES])
        return [quantity() for quantity in preset(quantities)]
    if not isinstance(quantities, Iterable):
        raise CockpitError(f"quantities is {quantities!r}; give a preset name or a list of quantities")
    chosen = [_quantity(entry) for entry in quantities]
    names = [quantity.name for quantity in chosen]
    for name in names:
        if names.count(name) > 1:
            raise CockpitError(f"the quantity {name} is given {names.count(name)} times; give it once, or subclass it")
    return chosen


def _quantity(entry: Any) -> Quantity:
    if isinstance(entry, str):
        if entry not in QUANTITIES:
            raise unknown("quantity", entry, QUANTITIES)
        return QUANTITIES[entry]()
    if isinstance(entry, type) and issubclass(entry, Quantity):
        return entry()
    if isinstance(entry, Quantity):
        return entry
    raise CockpitError(f"{entry!r} is not a quantity; give a name, a Quantity class or an instance")
