"""The numbers of the original implementation, through both faces."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import pytest
from tests.cases import GOLDENS, golden_case, golden_values
from tests.test_reference import OURS
from tests.watched import all_quantities, variant, watched_run
from torch import nn

from cockpit import Cockpit, extend
from cockpit.quantities import TICDiag

NOT_MEASURED = {"Alpha_fit_w"}


def quantities() -> list[Any]:
    return [*all_quantities(), variant(TICDiag, "TICDiag[diag_ggn_exact,eps=0]", epsilon=0.0)]


def by_watch(name: str) -> dict[int, dict[str, Any]]:
    return watched_run(golden_case(name), quantities()).get_output()


def by_paper(name: str) -> dict[int, dict[str, Any]]:
    """The loop of the dissertation's Algorithm C.1."""
    model, optimizer, loss_fn, batches = golden_case(name).build()
    model, loss_fn = extend(model), extend(loss_fn)
    losses_fn = type(loss_fn)(reduction="none")
    cockpit = Cockpit(model.parameters(), quantities=quantities())
    for step, (args, labels) in enumerate(batches):
        optimizer.zero_grad()
        outputs = model(*args)
        loss, losses = loss_fn(outputs, labels), losses_fn(outputs, labels)
        info = {"batch_size": len(labels), "individual_losses": losses, "loss": loss, "optimizer": optimizer}
        with cockpit(step, info=info):
            loss.backward(create_graph=cockpit.create_graph(step))
        optimizer.step()
    assert isinstance(model, nn.Module)
    return cockpit.get_output()


@pytest.mark.parametrize("face", [by_watch, by_paper])
@pytest.mark.parametrize("name", GOLDENS)
def test_recorded_numbers(name: str, face: Any) -> None:
    recorded, arrays = golden_values(name)
    output, compared = face(name), set()
    for source in ("original", "brute"):
        for step, row in recorded[source].items():
            for key, expected in row.items():
                if key in NOT_MEASURED or (isinstance(expected, float) and isnan(expected)):
                    continue
                found = output[int(step)][OURS.get(key, key)]
                found = list(found.values()) if isinstance(found, dict) else found
                rtol = {"original": 1e-2, "brute": 1e-3}[source] if key == "HessMaxEV" else 1e-8
                np.testing.assert_allclose(found, expected, rtol, 1e-13, err_msg=f"{key} at {step} ({source})")
                compared.add(key)
    assert len(compared) >= 18
    for step, row in output.items():
        for kind in ("GradHist1d", "GradHist2d"):
            np.testing.assert_array_equal(row[kind].counts, arrays[f"step{step}/{kind}/hist"])
            assert row[kind].counts.dtype == np.int64
            for axis, edges in enumerate(row[kind].edges):
                np.testing.assert_allclose(edges, arrays[f"step{step}/{kind}/edges{axis}"], atol=1e-12)
