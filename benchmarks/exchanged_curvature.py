"""Run the curvature quantities of the whole table with ``engine/curvature`` instead of the old second-order entry.

    python benchmarks/exchanged_curvature.py [names of cases ...]

In double and in single precision, with every other quantity that the table compares left out.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tests.cases import CASES
from tests.reference import reference_run
from tests.test_table import ROUNDING, allowed, in_single
from tests.watched import all_quantities, mismatch, watched_run
from torch import Tensor

from cockpit.core.errors import CockpitError
from cockpit.engine import backward_pass
from cockpit.engine.autograd.graph import Graph, Node
from cockpit.engine.capture import Capture
from cockpit.engine.curvature.gauss_newton import Network
from cockpit.engine.curvature.loss_hessian import Loss
from cockpit.engine.curvature.second_order import Memory, Request, compute
from cockpit.engine.needs import Need
from cockpit.engine.placement import Placements
from cockpit.engine.settings import Settings
from cockpit.layers.layout import Layout

CURVED = ("HessTrace", "HessMaxEV", "TICDiag", "TICTrace")
memories: dict[int, Memory] = {}


class Exchanged:
    """Today's interface, the new room behind it."""

    def __init__(
        self,
        roots: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        parameters: Mapping[str, Tensor],
        capture: Capture | str,
        settings: Settings,
        key: int,
        half: bool,
    ) -> None:
        self._settings, self._key, self._half, self._capture = settings, key, half, capture
        self._memory = memories.setdefault(id(settings), Memory())
        self._settings_kept = settings
        graph = (
            Graph([r.grad_fn for r in roots if r.grad_fn is not None]) if isinstance(capture, str) else capture.graph
        )
        self._loss = Loss(roots, seeds, graph)
        found: Any = None if isinstance(capture, str) else capture.found
        self._network = Network(
            graph,
            parameters,
            found.outputs if found else (),
            found.paths if found else (),
            found.placed if found else Placements(),
        )
        self.diagonals: Any = {}
        self.eigenpair: Any = None

    def _place(self, node: Node, output: int) -> Layout | None:
        capture = self._capture
        assert isinstance(capture, Capture)
        return self._settings.finder.place(capture.graph, node, output, capture.samples, capture.found.outputs)

    def compute(self, needs: frozenset[Need], impossible: str | None = None) -> None:
        """Compute what is needed."""
        problem = self._capture if isinstance(self._capture, str) else None
        request = Request(self._loss, self._network, problem, self._place, self._half, False, impossible)
        found = compute(needs, request, self._memory, self._key)
        self.diagonals, self.eigenpair = found.diagonals, found.eigenpair


def wrong(case: Any, exact: Any, rounding: float) -> list[str]:
    """What differs from the reference."""
    chosen = [quantity for quantity in all_quantities() if quantity.name.split("[")[0] in CURVED]
    memories.clear()
    try:
        pit = watched_run(case, chosen, run=False)
    except CockpitError:
        return [] if case.may_refuse else ["refused"]
    found = {(record.step, record.name): record for record in pit.history}
    bad = []
    for step, values in reference_run(exact).items():
        for name, expected in values.items():
            if name.split("[")[0] not in CURVED:
                continue
            record = found.get((step, name))
            if record is None:
                bad.append(f"{name} at {step} is missing")
            elif record.value is None:
                if expected is not None and not allowed(case, name, record.reason):
                    bad.append(f"{name} at {step} is undefined: {record.reason}; expected {expected}")
            elif expected is None:
                bad.append(f"{name} at {step} is {record.value}, should be undefined")
            elif why := mismatch(case, name, record.value, expected, rounding):
                bad.append(f"{name} at {step}: {why}")
    return bad


def main(names: list[str]) -> None:
    """Print what is wrong, case by case."""
    backward_pass.SecondOrder = Exchanged  # type: ignore[misc,assignment]
    count, begin = 0, time.time()
    for name, case in CASES.items():
        if names and name not in names:
            continue
        runs = {"double": (case, case, 0.0)}
        if case.dtype is torch.float64:
            runs["single"] = (in_single(case), case, ROUNDING)
        for kind, run in runs.items():
            start = time.time()
            bad = wrong(*run)
            count += 1
            if bad or time.time() - start > 5:
                print(
                    f"{name} in {kind}: {time.time() - start:.1f} s",
                    *(line[:240] for line in bad[:6]),
                    sep="\n    ",
                    flush=True,
                )
    print(f"{count} runs, {time.time() - begin:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
