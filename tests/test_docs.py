"""What the documentation shows works: the Python blocks of each page run in order, warnings are errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.running import ROOT, python

from cockpit import open_run
from cockpit.quantities import QUANTITIES
from cockpit.store import runs

PAGES = sorted((ROOT / "docs").glob("*.md"))
MEANT_TO_RUN = {"bench", "extend", "runs", "watch"}

RUN_SUITES = """
for name, suite in list(globals().items()):
    if name.startswith("Test"):
        for test in (getattr(suite(), entry) for entry in dir(suite) if entry.startswith("test_")):
            test()
            print("passed", name, test.__name__)
"""


def blocks(page: Path, mark: str) -> list[str]:
    return re.findall(rf"^```{mark}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run(code: str, folder: Path, **environment: str) -> str:
    script = folder / "page.py"
    script.write_text(code, encoding="utf-8")
    done = python(script, cwd=folder, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_runnable_blocks(page: Path, tmp_path: Path) -> None:
    code = blocks(page, "python runnable")
    assert bool(code) == (page.stem in MEANT_TO_RUN)
    assert not blocks(page, "python"), "mark the block as runnable"
    if code:
        run("\n\n".join([*code, RUN_SUITES]), tmp_path)


def test_suites_on_the_pages_are_run(tmp_path: Path) -> None:
    output = run("\n\n".join([*blocks(ROOT / "docs" / "extend.md", "python runnable"), RUN_SUITES]), tmp_path)
    assert output.count("passed TestGradCosine") >= 3
    assert "passed TestScaled test_individual_gradients" in output


def test_readme(tmp_path: Path) -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    run(code, tmp_path, COCKPIT_RUNS="runs")
    (listed,) = runs(tmp_path / "runs")
    assert (listed.state, listed.reached) == ("finished", 500)
    assert len(listed.losses) > 1
    assert listed.losses[-1] < listed.losses[0]
    values = open_run(listed.path)["NormTest"].values
    assert len(values) > 1
    assert (values > 0).all()


def test_readme_takes_ten_seconds() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    bullets = re.findall(r"^- (.*)$", text, re.MULTILINE)
    assert len(bullets) == 6
    assert all(len(bullet.split()) < 10 for bullet in bullets), bullets


def test_every_quantity_is_explained() -> None:
    table = (ROOT / "docs" / "quantities.md").read_text(encoding="utf-8")
    rows = {found[1]: found[2] for found in re.finditer(r"^\| `(\w+)` ?(\w?) \|", table, re.MULTILINE)}
    presets = {name: quantity.cost.name[0].lower() if quantity.cost else "" for name, quantity in QUANTITIES.items()}
    assert rows == presets


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "ARCHITECTURE.md"], ids=lambda page: page.stem)
def test_links_and_names_of_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), link
    for name in re.findall(
        r"`(?:cockpit/)?((?:bench|core|dashboard|engine|layers|panels|quantities|plots|problems|results|store)/\w+\.py)`",
        text,
    ):
        assert (ROOT / "src" / "cockpit" / name).exists() or name == "quantities/grad_cosine.py", name
