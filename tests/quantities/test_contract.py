"""Every quantity passes the contract suite."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.quantities import QUANTITIES
from cockpit.quantities._base import Quantity
from cockpit.testing import QuantityContract


@pytest.mark.parametrize("name", QUANTITIES)
class TestQuantities(QuantityContract):
    @pytest.fixture(autouse=True)
    def _chosen(self, name: str) -> None:
        self.name = name

    def make(self, **options: Any) -> Quantity:
        return QUANTITIES[self.name](**options)
