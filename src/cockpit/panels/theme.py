"""Colours and type of all panels, in one place: Vega configurations for the page, dark pages and paper."""

from typing import Any, Literal

from cockpit.core.errors import unknown
from cockpit.panels._base import Group

Theme = Literal["light", "dark", "print"]

ACCENTS: dict[Group, str] = {
    "step size": "#0072B2",
    "gradients": "#D55E00",
    "curvature": "#009E73",
    "performance": "#707680",
    "more": "#707680",
}
# Without yellow and with grey for black, so that all are seen on white and on black.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
RUNS = (*OKABE_ITO, "#5B4FA8", "#A6431A", "#4F8A10", "#A0447A", "#96690A", "#2B8CBE", "#B07D62")
QUIET = "#8A8F98"  # rules, references and what lies behind: seen on white and on black
ALARM = "#D7263D"  # what must not be overlooked; always together with a shape
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"

_RAMP = ["#DCEFC6", "#A4DBB8", "#59BDC4", "#2890BF", "#2461A8", "#223684", "#0B1446"]  # more is darker, also in grey
_INK = {"light": "#333A44", "dark": "#C9D1DB", "print": "#000000"}
_SOFT = {"light": "#6B7280", "dark": "#93A0AE", "print": "#333333"}
_GRID = {"light": "#E9ECF0", "dark": "#2A313B", "print": "#E2E2E2"}


def config(theme: Theme = "light") -> dict[str, Any]:
    """Return the Vega-Lite configuration of a theme; the background is transparent, on paper white."""
    if theme not in _INK:
        raise unknown("theme", theme, _INK)
    ink, soft, grid = _INK[theme], _SOFT[theme], _GRID[theme]
    ramp = _RAMP[::-1] if theme == "dark" else _RAMP
    axis = {
        **{"labelColor": soft, "titleColor": soft, "labelFontSize": 9, "titleFontSize": 9, "titleFontWeight": "normal"},
        **{"domain": False, "ticks": False, "gridColor": grid, "gridWidth": 1, "labelPadding": 4},
        **{"titlePadding": 4, "labelSeparation": 4},
    }
    legend = {
        **{"labelColor": ink, "titleColor": soft, "labelFontSize": 9, "titleFontSize": 9, "titleFontWeight": "normal"},
        **{"symbolSize": 40, "symbolStrokeWidth": 2, "columnPadding": 8, "rowPadding": 0, "padding": 0, "offset": 3},
        **{"gradientThickness": 7, "labelOffset": 3, "titlePadding": 3, "labelLimit": 260},
    }
    title = {"color": ink, "fontSize": 11, "fontWeight": 600, "anchor": "start", "offset": 4, "frame": "group"}
    return {
        "background": "white" if theme == "print" else None,
        "font": SANS,
        "padding": 4,
        "view": {"stroke": None},
        "axis": axis,
        "legend": legend,
        "title": {**title, "subtitleColor": soft, "subtitleFontSize": 9, "subtitlePadding": 2},
        "text": {"color": soft, "fontSize": 9},
        "range": {"heatmap": ramp, "ramp": ramp[2:] if theme == "dark" else ramp[1:]},
        "line": {"strokeWidth": 1.5, "strokeJoin": "round", "strokeCap": "butt"},
        "point": {"filled": True, "size": 12, "color": ink},
        "rule": {"color": QUIET},
    }
