"""Per-parameter quantities, layer by layer."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import LAYERS, run, shapes

from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import View, layers, panel
from cockpit.panels.by_layer import VIEWS


def one(name: str, what: str, view: View | None = None, source: Recorded | None = None):  # type: ignore[no-untyped-def]
    shown = {made.id: made for made in layers(source or run(), view or View(), name)}
    return shown[f"layers-{what}-{name}"]


def test_ids_are_stable() -> None:
    assert [made.id for made in layers(run(), View(), "GradNorm")] == [f"layers-{what}-GradNorm" for what in VIEWS]


def test_a_cell_is_the_norm_of_a_layer() -> None:
    source = run()
    parts = source.parts("GradNorm")
    shown = one("GradNorm", "heat", source=source)
    assert next(p["value"] for p in shown.spec["params"] if p["name"] == "rows") == list(LAYERS)
    cells = {(row["at"], row["r"]): row["c"] for row in shown.datasets["cells"]}
    for row, step in enumerate(parts.steps.tolist()):
        for layer in range(3):
            weight, bias = parts.values[row, 2 * layer], parts.values[row, 2 * layer + 1]
            assert cells[step, layer] == pytest.approx((weight**2 + bias**2) ** 0.5, rel=1e-4)


def test_traces_add_up() -> None:
    source = run()
    values = source.parts("HessTrace").values
    cells = [row["c"] for row in one("HessTrace", "heat", source=source).datasets["cells"] if row["r"] == 0]
    assert cells == pytest.approx(values[:, 0] + values[:, 1], rel=1e-4)


def test_types_are_joined() -> None:
    source = run()
    rows = [row for row in one("GradNorm", "type", source=source).datasets["lines"] if row["k"] == "Conv2d (2)"]
    slow = np.sqrt(np.square(source.parts("GradNorm").values[:, :4]).sum(1))
    assert [row["v"] for row in rows] == pytest.approx(slow, rel=1e-4)


def test_relative_to_the_weights() -> None:
    source = run()
    plain = one("UpdateSize", "heat", source=source).datasets["cells"]
    relative = one("UpdateSize", "weights", source=source).datasets["cells"]
    norm = 8**0.5  # weight and bias have norm 2 each
    assert [row["c"] for row in relative] == pytest.approx([row["c"] / norm for row in plain], rel=1e-3)


def test_weights_are_asked_for() -> None:
    bare = Recorded([Record(0, "GradNorm", Kind.PER_PARAMETER, {"a.w": 1.0})], "bare")
    assert "Parameters" in str(one("GradNorm", "weights", source=bare).empty)


def test_ranges() -> None:
    source = run()
    row = one("GradNorm", "range", source=source).datasets["rows"][0]
    values = np.sqrt(np.square(source.parts("GradNorm").values[:, :2]).sum(1))
    assert (row["low"], row["high"]) == pytest.approx((values.min(), values.max()))
    assert (row["q1"], row["q3"]) == pytest.approx(tuple(np.quantile(values, (0.25, 0.75))))
    assert row["v"] == pytest.approx(values[-1])


def test_many_layers_become_few_rows() -> None:
    deep = shapes()["deep"][0]
    shown = one("GradNorm", "heat", source=deep)
    rows = next(p["value"] for p in shown.spec["params"] if p["name"] == "rows")
    assert len(rows) == 75  # 150 layers, two to a row
    assert rows[0] == "0.norm"
    assert next(p["value"] for p in shown.spec["params"] if p["name"] == "full")[0] == "0.norm … 0.fc1"
    assert "150 layers, drawn as 75 rows" in shown.note
    assert shown.datasets["cells"][0]["c"] == pytest.approx(2**0.5, rel=1e-4)


@pytest.mark.parametrize(("pattern", "rows"), [("^7", ["7"]), ("conv", ["0", "3"]), (".bias", list(LAYERS)), ("[", [])])
def test_filter(pattern: str, rows: list[str]) -> None:
    shown = one("GradNorm", "heat", View(layers=pattern))
    if not rows:
        assert "No layer matches '['" in str(shown.empty)
    else:
        assert next(p["value"] for p in shown.spec["params"] if p["name"] == "rows") == rows


def test_without_metadata_layers_come_from_names() -> None:
    source = Recorded([Record(0, "GradNorm", Kind.PER_PARAMETER, {"a.b.w": 1.0, "a.b.v": 1.0, "scale": 1.0})], "old")
    shown = one("GradNorm", "heat", source=source)
    assert next(p["value"] for p in shown.spec["params"] if p["name"] == "rows") == ["a.b", "scale"]


def test_zeros_are_kept_and_missing_parts_are_not_drawn() -> None:
    values = [{"a.w": 0.0, "b.w": 1.0}, {"b.w": 2.0}]
    source = Recorded([Record(step, "GradNorm", Kind.PER_PARAMETER, value) for step, value in enumerate(values)], "s")
    cells = {(row["at"], row["r"]): row["c"] for row in one("GradNorm", "heat", source=source).datasets["cells"]}
    assert cells == {(0, 0): 0.0, (0, 1): 1.0, (1, 1): 2.0}


def test_scalars_have_no_layers_and_unknown_names_are_refused() -> None:
    assert layers(run(), View(), "Loss") == []
    with pytest.raises(CockpitError, match="did you mean 'GradNorm'"):
        layers(run(), View(), "GradNrm")


def test_found_by_id() -> None:
    assert panel([run()], "layers-heat-GradNorm").title == "GradNorm: layer by step"
