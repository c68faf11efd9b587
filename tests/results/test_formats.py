"""Tables as text."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.results.samples import baselines, made, several
from tests.results.tex import check

from cockpit.core.errors import CockpitError
from cockpit.results.formats import FORMATS, as_csv, as_json, as_latex, markdown, render, text
from cockpit.results.tables import Table, table


def small(published: bool = False) -> Table:
    return table([*several(), made("SGD", [200.0], problem="mnist_vae", diverged=1)], published=published)


def test_text() -> None:
    lines = text(small()).splitlines()
    assert lines[0].split() == ["problem", "optimizer", "performance", "speed", "seeds", "hyperparameters"]
    assert lines[2].split() == ["mnist_vae", "SGD", "diverged", "(1", "of", "1)", ">", "2", "1", "lr", "0.1"]
    first = next(line for line in lines if "fmnist_2c2d" in line)
    assert first.split()[1:] == ["Adam", "88.73", "±", "0.08%", ">", "10", "3", "lr", "0.1"]
    assert lines[-1].split()[0] == "SGD"  # the problem is named once


def test_text_fits_a_terminal_without_losing_numbers() -> None:
    narrow = text(small(), width=72)
    assert max(map(len, narrow.splitlines())) <= 72
    for word in ("88.73", "diverged", "fmnist_2c2d"):
        assert word in narrow
    assert "…" not in narrow


def test_published_figures_stand_beside() -> None:
    assert "91.69 [B.2, 100 epochs]" in text(small(published=True))
    assert "92.34 [5.2]" in markdown(table(baselines(), ["fmnist_2c2d"], published=True))


def test_markdown() -> None:
    lines = markdown(small()).splitlines()
    assert lines[1] == "| --- | --- | ---: | ---: | ---: | --- |"
    assert len({line.count("|") for line in lines}) == 1
    assert lines[3] == "| fmnist_2c2d | Adam | 88.73 ± 0.08% | > 10 | 3 | lr 0.1 |"
    assert "a\\|b" in markdown(table([made("a|b")]))


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(small(published=True)))))
    assert [row["optimizer"] for row in rows] == ["SGD", "Adam", "SGD"]
    assert rows[0]["performance"] == ""
    assert float(rows[1]["performance"]) == pytest.approx(0.8873, abs=1e-4)
    assert json.loads(rows[1]["hyperparameters"]) == {"lr": 0.1}
    assert rows[1]["published_table"] == "B.2"
    assert "published" not in as_csv(small())


def test_json() -> None:
    data = json.loads(as_json(small(published=True)), parse_constant=pytest.fail)
    assert data["mode"] == "shared"
    assert data["rows"][0]["performance"] is None
    assert data["rows"][1]["published"]["table"] == "B.2"


def test_latex() -> None:
    source = as_latex(small(published=True))
    assert check(source) == ["document", "tabular"]
    assert (
        r"fmnist\_2c2d & test accuracy (\%) & \cellcolor{green!100!red!35}88.73 (published: 91.69, 100 epochs)"
        in source
    )
    assert r"\cellcolor{green!0!red!35}" in source
    assert "diverged (1 of 1)" in source
    rows = [line for line in source.splitlines() if "&" in line]
    assert {line.count("&") for line in rows} == {3}


def test_latex_of_odd_names() -> None:
    odd = made("A&B_{50%}^~\\#$ über 学", problem="x<y>|z", variant={"l2": 1e-3})
    source = as_latex(table([odd]))
    check(source)
    assert r"A\&B\_\{50\%\}\textasciicircum{}\textasciitilde{}\textbackslash{}\#\$ über ?" in source
    assert r"x\textless{}y\textgreater{}\textbar{}z" in source


def test_colours_go_by_row() -> None:
    source = as_latex(table(baselines(), ["quadratic_deep"]))
    assert (
        r"\cellcolor{green!81!red!35}87.11 & \cellcolor{green!100!red!35}87.05 & \cellcolor{green!0!red!35}87.40"
        in source
    )
    assert (
        r"\cellcolor{green!100!red!35}39.9 & \cellcolor{green!0!red!35}70.5 & \cellcolor{green!63!red!35}51.1" in source
    )


def test_a_target_that_was_never_reached_is_no_good_speed() -> None:
    soon, late = made("Adam", accuracies=[0.1, 0.2, 0.3]), made("SGD", accuracies=[0.1, *[0.5] * 40, 0.93], epochs=41)
    later = made("Momentum", accuracies=[0.1, *[0.5] * 45, 0.93], epochs=46)
    (row,) = (line for line in as_latex(table([soon, late, later])).splitlines() if "speed" in line)
    assert row == (
        r" & speed (epochs) & \textgreater{} 2 & \cellcolor{green!0!red!35}46.0 & \cellcolor{green!100!red!35}41.0 \\"
    )


def test_figures_of_matrices_that_drift_are_marked() -> None:
    runs = [made(name, [300.0, 87.0], problem="quadratic_deep") for name in ("Adam", "AMSGrad", "Momentum")]
    found = table(runs, published=True)
    shown = text(found)
    for figure in ("86.58 [B.2**, 100 epochs]", "87.64 [B.2*, 100 epochs]", "87.04 [B.2, 100 epochs]"):
        assert figure in shown
    assert "\n* tuned on matrices that differ from setting to setting\n** tuned on matrices that differ" in shown
    assert "no parameters get below 86.8735" in shown
    assert "86.58 [B.2\\*\\*, 100 epochs]" in markdown(found)
    assert "\\multicolumn{5}{l}{\\footnotesize ** tuned on matrices" in as_latex(found)
    check(as_latex(found))
    assert json.loads(as_json(found))["rows"][0]["published"]["caveat"].startswith("tuned on matrices")
    assert "*" not in text(small(published=True))


def test_all_settings() -> None:
    found = table(several(rates=(0.1, 1.0)), every=True)
    assert [line.split()[-1] for line in text(found).splitlines()[2:]] == ["0.1", "1", "0.1", "1"]
    assert len(list(csv.DictReader(io.StringIO(as_csv(found))))) == 4
    assert [row["rank"] for row in json.loads(as_json(found))["rows"]] == [1, 2, 1, 2]
    source = as_latex(found)
    assert check(source) == ["document", "tabular"]
    assert r" & SGD & 87.73 ± 0.08" in source.replace(r"$\pm$", "±")
    assert {line.count("&") for line in source.splitlines() if "&" in line} == {5}


def test_render() -> None:
    assert set(FORMATS) == {"text", "markdown", "csv", "json", "latex"}
    assert render(small(), "csv") == as_csv(small())
    with pytest.raises(CockpitError, match="unknown format of a table 'html'"):
        render(small(), "html")
