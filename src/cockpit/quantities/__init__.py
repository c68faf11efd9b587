"""The nineteen quantities, and the presets of the paper."""

from cockpit.core.errors import unknown
from cockpit.core.kinds import Cost
from cockpit.quantities._base import Quantity
from cockpit.quantities.alpha import Alpha
from cockpit.quantities.cabs import CABS
from cockpit.quantities.distance import Distance
from cockpit.quantities.early_stopping import EarlyStopping
from cockpit.quantities.grad_hist import GradHist1d, GradHist2d
from cockpit.quantities.grad_norm import GradNorm
from cockpit.quantities.gradient_tests import InnerTest, NormTest, OrthoTest
from cockpit.quantities.hess_max_ev import HessMaxEV
from cockpit.quantities.hess_trace import HessTrace
from cockpit.quantities.loss import Loss
from cockpit.quantities.mean_gsnr import MeanGSNR
from cockpit.quantities.parameters import Parameters
from cockpit.quantities.tic import TICDiag, TICTrace
from cockpit.quantities.time import Time
from cockpit.quantities.update_size import UpdateSize

__all__ = [
    "CABS",
    "Alpha",
    "Distance",
    "EarlyStopping",
    "GradHist1d",
    "GradHist2d",
    "GradNorm",
    "HessMaxEV",
    "HessTrace",
    "InnerTest",
    "Loss",
    "MeanGSNR",
    "NormTest",
    "OrthoTest",
    "Parameters",
    "TICDiag",
    "TICTrace",
    "Time",
    "UpdateSize",
]

QUANTITIES: dict[str, type[Quantity]] = {name: globals()[name] for name in __all__}
PRESETS = {cost.name.lower(): cost for cost in Cost}


def preset(name: str) -> list[type[Quantity]]:
    """Return the quantities of ``"economy"``, ``"business"`` or ``"full"``: all up to that cost."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    level = PRESETS[name].value
    return [quantity for quantity in QUANTITIES.values() if quantity.cost is not None and quantity.cost.value <= level]
