"""The nineteen quantities, and the presets of the paper. A quantity is added by one line below."""

from cockpit.core.errors import unknown
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
    """Return the quantities of ``"economy"``, ``"business"`` or ``"full"``: all up to that cost."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    level = PRESETS[name].value
    return [quantity for quantity in QUANTITIES.values() if quantity.cost is not None and quantity.cost.value <= level]
