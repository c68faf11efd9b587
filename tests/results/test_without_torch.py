"""Nothing that reads results needs torch."""

from __future__ import annotations

from pathlib import Path

from tests.running import python

CODE = """
import importlib, pkgutil, sys
sys.modules["torch"] = None
import cockpit.results
names = [found.name for found in pkgutil.walk_packages(cockpit.results.__path__, "cockpit.results.")]
for name in [*names, "cockpit.panels.bench", "cockpit.plots.bench", "cockpit.bench.reporting"]:
    importlib.import_module(name)
print(len(names))
"""


def test_no_module_needs_torch(tmp_path: Path) -> None:
    done = python("-c", CODE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 9
