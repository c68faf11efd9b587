from __future__ import annotations

import pytest

from cockpit.core.errors import CockpitError
from cockpit.dashboard.query import read


def test_an_address_is_read() -> None:
    query = read("run=a&run=b%2Fc&axis=log&lo=3&hi=9.5&smooth=0.6&layers=conv&step=7&range=auto&more=1&panel=loss")
    assert query.runs == ("a", "b/c")
    view = query.view
    assert (view.axis, view.span, view.smoothing, view.layers) == ("log", (3.0, 9.5), 0.6, "conv")
    assert (view.step, view.range, query.more, query.panel) == (7, "auto", True, "loss")


def test_an_empty_address_is_the_plain_view() -> None:
    query = read("")
    assert query.runs == ()
    assert (query.view.axis, query.view.span, query.view.step, query.more) == ("auto", None, None, False)


def test_many_runs_get_fewer_points_each() -> None:
    points = [read("&".join(["run=a"] * count)).view.points for count in (1, 2, 4, 20, 40)]
    assert points == sorted(points, reverse=True)
    assert points[0] == 400
    assert points[-1] >= 60
    assert read("points=2500").view.points == 2500
    assert read("points=99999999").view.points == 20_000


def test_marks_of_known_panels() -> None:
    assert read("known=loss:ab.cd,alpha:ef.01").known["alpha"] == ("ef", "01")


@pytest.mark.parametrize(
    "bad", ["axis=x", "lo=2&hi=2", "smooth=inf", "points=many", "layers=" + "a" * 999, "theme=x", "run=a&" * 500]
)
def test_what_makes_no_sense_is_refused(bad: str) -> None:
    with pytest.raises(CockpitError):
        read(bad)
