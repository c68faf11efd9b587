"""A run that broke looks broken in every panel."""

from __future__ import annotations

from math import nan

from tests.panels.made import of, records, run

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import View, deck, layers, panel
from cockpit.panels.alarm import DATA

WORD = "NaN since step 40"


def broke() -> Recorded:
    """Sound for 40 steps, then NaN, with most quantities undefined."""
    sound = records(range(0, 40, 2))
    lost = [Record(s, "Loss", Kind.SCALAR, nan) for s in range(40, 80, 2)]
    kinds = {record.name: record.kind for record in sound}
    kept = ("Loss", "Time", "learning_rate", "batch_size", "tracking_seconds", "accuracy")
    for name in kinds.keys() - set(kept):
        lost += [Record(s, name, kinds[name], None, "the gradient is not finite") for s in range(40, 80, 2)]
    return Recorded([*sound, *lost], "broke")


def test_every_panel_says_so_first() -> None:
    shown = [one for one in deck([broke()]) if not one.empty]
    assert len(shown) >= 16
    assert all(one.alarm == WORD for one in shown)


def test_no_panel_calls_an_old_value_the_present_one() -> None:
    for one in deck([broke()]):
        if one.id in ("learning-rate", "of-batch_size"):
            continue  # these still are what they are
        assert "now" not in one.note.split(" · ")[0], one.note
    assert "learning rate for Alpha" not in panel([broke()], "alpha").note
    assert "needs" not in panel([broke()], "tests").note
    assert "step 38" in panel([broke()], "tests").note, "the gauge shows a step that is not the last"


def test_the_broken_part_of_the_axis_is_marked() -> None:
    for one in [*deck([broke()]), *layers(broke())]:
        if one.steps and not one.empty:
            assert [row["step"] for row in one.datasets[DATA]] == [40], one.id
            assert one.spec["layer"][0]["data"] == {"name": DATA}


def test_ranges_show_the_last_step_that_had_a_value() -> None:
    shown = panel([broke()], "layers-range-GradNorm")
    assert shown.note == "dot: step 38"
    assert all("v" in row for row in shown.datasets["rows"])


def test_of_several_runs_the_broken_one_is_named() -> None:
    shown = panel([broke(), run("sound")], "loss", View())
    assert shown.alarm == f"{WORD}: broke"
    assert DATA not in shown.datasets


def test_a_sound_run_has_no_alarm() -> None:
    assert {one.alarm for one in deck([run()])} == {""}
    once = of("Loss", {0: 1.0, 1: nan, 2: 1.0})
    assert panel([once], "loss").alarm == ""
