"""Colours that all readers can tell apart."""

from __future__ import annotations

import pytest

from cockpit.core.errors import CockpitError
from cockpit.panels.theme import ACCENTS, OKABE_ITO, QUIET, RUNS, config


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", sorted({*ACCENTS.values(), QUIET}))
def test_accents_are_seen_on_white_and_on_black(colour: str) -> None:
    assert contrast(colour, "#FFFFFF") > 3
    assert contrast(colour, "#14181F") > 3


def test_runs_are_seen_on_both() -> None:
    assert len(set(RUNS)) == len(RUNS)
    for colour in (*OKABE_ITO, *RUNS):
        assert contrast(colour, "#FFFFFF") > 2.1
        assert contrast(colour, "#14181F") > 2.1


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_ramps_are_ordered_in_grey(theme: str) -> None:
    tones = [luminance(colour) for colour in config(theme)["range"]["heatmap"]]  # type: ignore[arg-type]
    assert tones == sorted(tones, reverse=theme != "dark")


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_text_can_be_read(theme: str) -> None:
    paper = "#14181F" if theme == "dark" else "#FFFFFF"
    look = config(theme)  # type: ignore[arg-type]
    assert contrast(look["axis"]["labelColor"], paper) > 4.5
    assert contrast(look["title"]["color"], paper) > 7


def test_unknown_theme() -> None:
    with pytest.raises(CockpitError, match="unknown theme"):
        config("sepia")  # type: ignore[arg-type]
