"""The reading side works without torch, whether torch is installed here or not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIST = """
import pkgutil
import cockpit.core, cockpit.dashboard, cockpit.panels, cockpit.plots, cockpit.store

MODULES = ["cockpit", "cockpit.cli", "cockpit.paper_log", "cockpit.run"]
for package in (cockpit.core, cockpit.dashboard, cockpit.panels, cockpit.plots, cockpit.store):
    MODULES += [found.name for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
"""
WITHOUT = "import sys; sys.modules['torch'] = None\n"  # any import of torch fails


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules(folder: Path) -> list[str]:
    found = run(LIST + "print(*MODULES)", folder).split()
    assert "cockpit.core.record" in found
    assert {"cockpit.plots.plotter", "cockpit.store.run", "cockpit.panels.screen", "cockpit.run"} <= set(found)
    return [name for name in found if not name.endswith(".__main__")]


def test_no_module_imports_torch(tmp_path: Path) -> None:
    """One after another in one process: the first that imports it is named."""
    code = (
        f"import importlib, sys\nfor name in {modules(tmp_path)!r}:\n"
        "    importlib.import_module(name)\n    assert 'torch' not in sys.modules, name"
    )
    run(code, tmp_path)


def test_every_module_works_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    names = modules(tmp_path)
    run(WITHOUT + f"import importlib\nfor name in {names!r}: importlib.import_module(name)", tmp_path)


def test_a_log_is_shown_without_torch(tmp_path: Path) -> None:
    log = {"0": {"Loss": 2.0, "GradNorm": [3.0, 4.0]}, "1": {"Loss": 1.0, "GradNorm": [0.3, 0.4]}}
    (tmp_path / "log.json").write_text(json.dumps(log))
    text = run(WITHOUT + "import cockpit; cockpit.CockpitPlotter().plot('log')", tmp_path)
    assert "STEP SIZE" in text
    assert "GradNorm" in text


RUN = """
from pathlib import Path
from cockpit import store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record

writer = store.create(Path("runs/a"), {"name": "a", "steps": 3})
writer.append([Record(step, "Loss", Kind.SCALAR, 1.0 / (step + 1)) for step in range(3)])
writer.append([Record(0, "GradNorm", Kind.PER_PARAMETER, {"0.weight": 3.0, "0.bias": 4.0})])
writer.close()
"""


def test_a_run_is_read_without_torch(tmp_path: Path) -> None:
    read = "import cockpit\nfound = cockpit.open_run('runs/a')\nprint(found.table()['Loss'].sum(), found)"
    assert run(WITHOUT + RUN + read, tmp_path).startswith("1.8333333333333333 <cockpit run 'a', finished")


@pytest.mark.parametrize(
    ("arguments", "library"),
    [
        (["show", "runs/a"], "rich"),
        (["show", "runs/a", "--json"], "rich"),
        (["plot", "runs/a", "-o", "deck.svg", "--panel", "loss"], "vl_convert"),
        (["plot", "--list"], "click"),
        (["export", "runs/a", "--to", "csv"], "click"),
        (["export", "runs/a", "--to", "parquet"], "pyarrow"),
        (["export", "runs/a", "--to", "tensorboard"], "tensorboard"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_commands_that_read_work_without_torch(tmp_path: Path, arguments: list[str], library: str) -> None:
    pytest.importorskip(library)
    assert run(WITHOUT + RUN + f"from cockpit.cli import main; main({arguments!r})", tmp_path)


def test_the_version_is_told_without_torch(tmp_path: Path) -> None:
    code = WITHOUT + "from cockpit.cli import main; main(['--version'])"
    assert run(code, tmp_path).startswith("cockpit, version ")


@pytest.mark.parametrize("name", ["watch", "Cockpit", "configuration", "extend"])
def test_what_measures_asks_for_torch(tmp_path: Path, name: str) -> None:
    code = WITHOUT + f"import cockpit\ntry: cockpit.{name}\nexcept ImportError as error: print(error)"
    assert "torch" in run(code, tmp_path)
