from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.bench.sweep.test_commands import Call, cockpit

from cockpit.results.published import crowded_valley

__all__ = ["cockpit"]

TABLES = {("small", "constant"): "B.3", ("medium", "cosine"): "B.4", ("medium", "ltr"): "B.5"}


def test_cells_of_the_study(cockpit: Call, tmp_path: Path) -> None:
    """To the last printed digit; tuned in one process on drifting matrices (SGD), and on one alone (NAG)."""
    file = tmp_path / "valley.toml"
    file.write_text(
        'problems = ["quadratic_deep"]\noptimizers = ["SGD", "NAG"]\nprotocol = "crowded-valley"\n'
        'budgets = ["small", "medium"]\nschedules = ["constant", "cosine", "ltr"]\n'
    )
    assert cockpit("sweep", file, "--workers", 0).exit_code == 0
    cells = json.loads(cockpit("report", file, "--format", "json").stdout)["cells"]
    printed = {
        (one.table, one.optimizer): (one.mean, one.std)
        for one in crowded_valley()
        if (one.problem, one.metric) == ("quadratic_deep", "test_loss")
    }
    met = 0
    for cell in cells:
        table = TABLES.get((cell["budget"], cell["schedule"]))
        if table is not None:
            found = (round(cell["mean"], 2), round(cell["std"], 2))
            assert found == printed[table, cell["optimizer"]]
            met += 1
    assert met == 6


@pytest.mark.parametrize("line", ['order = "fixed"', "hessian = 3"])
def test_what_the_protocol_sets_cannot_be_given(cockpit: Call, tmp_path: Path, line: str) -> None:
    file = tmp_path / "valley.toml"
    file.write_text(
        'problems = ["quadratic_deep"]\noptimizers = ["SGD"]\nprotocol = "crowded-valley"\n'
        f"[problem.quadratic_deep]\n{line}\n"
    )
    refused = cockpit("sweep", file)
    assert refused.exit_code == 2
    assert f"valley.toml:5: problem.quadratic_deep.{line.split()[0]}: crowded-valley sets it" in refused.stderr
