"""The paper's import path for the base classes."""

from cockpit.quantities._base import ByproductQuantity, Quantity, SingleStepQuantity, TwoStepQuantity

__all__ = ["ByproductQuantity", "Quantity", "SingleStepQuantity", "TwoStepQuantity"]
