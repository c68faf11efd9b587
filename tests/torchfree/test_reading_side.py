"""The reading side works without torch, whether torch is installed here or not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIST = """
import pkgutil
import cockpit.core, cockpit.plots

MODULES = ["cockpit", "cockpit.cli", "cockpit.paper_log"]
for package in (cockpit.core, cockpit.plots):
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
    assert "cockpit.plots.plotter" in found
    return found


def test_no_module_imports_torch(tmp_path: Path) -> None:
    for name in modules(tmp_path):
        code = f"import importlib, sys; importlib.import_module({name!r}); print('torch' in sys.modules)"
        assert run(code, tmp_path) == "False\n", f"{name} imports torch"


def test_every_module_works_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    names = modules(tmp_path)
    run(WITHOUT + f"import importlib\nfor name in {names!r}: importlib.import_module(name)", tmp_path)


def test_a_log_is_shown_without_torch(tmp_path: Path) -> None:
    log = {"0": {"Loss": 2.0, "GradNorm": [3.0, 4.0]}, "1": {"Loss": 1.0, "GradNorm": [0.3, 0.4]}}
    (tmp_path / "log.json").write_text(json.dumps(log))
    text = run(WITHOUT + "import cockpit; cockpit.CockpitPlotter().plot('log')", tmp_path)
    assert "STEP SIZE" in text
    assert "GradNorm" in text


def test_the_version_is_told_without_torch(tmp_path: Path) -> None:
    code = WITHOUT + "from cockpit.cli import main; main(['--version'])"
    assert run(code, tmp_path).startswith("cockpit, version ")


@pytest.mark.parametrize("name", ["watch", "Cockpit", "configuration", "extend"])
def test_what_measures_asks_for_torch(tmp_path: Path, name: str) -> None:
    code = WITHOUT + f"import cockpit\ntry: cockpit.{name}\nexcept ImportError as error: print(error)"
    assert "torch" in run(code, tmp_path)
