from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from cockpit.bench.commands import bench
from cockpit.bench.optimizers import named
from cockpit.cli import Commands
from cockpit.optimizers import RULES

KEYS = ["name", "rule", "paper", "defaults", "space", "packs"]


def cockpit(*arguments: str) -> Result:
    main = Commands("cockpit")
    main.add_command(bench)
    return CliRunner().invoke(main, ["bench", "optimizers", *arguments])


def listed(*arguments: str) -> list[dict[str, Any]]:
    found = cockpit(*arguments, "--json")
    assert found.exit_code == 0
    rows: list[dict[str, Any]] = json.loads(found.stdout)
    return rows


def test_all_of_them() -> None:
    rows = listed()
    assert {row["name"] for row in rows} == named().keys()
    assert all(list(row) == KEYS for row in rows)
    assert [row["name"] for row in rows if row["packs"]] == list(RULES)
    text = cockpit().stdout
    assert all(name in text for name in named())


def test_one_rule() -> None:
    (row,) = listed("la(momentum)")
    rule = RULES["LA(Momentum)"]
    assert [row[key] for key in ("name", "paper", "defaults", "space")] == [
        rule.name,
        rule.paper,
        rule.defaults,
        rule.space,
    ]
    assert row["rule"].startswith("version 1: at steps 1, k + 1")
    text = cockpit("RMSPROP").stdout
    assert "s = alpha s + (1 - alpha) g^2" in text
    assert "alpha = { log1m = [0.0001, 1] }" in text


def test_one_of_torch_or_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = listed("torch.optim:AdamW")
    assert (row["name"], row["rule"], row["space"]) == ("torch.optim:AdamW", "torch.optim:AdamW", {})
    assert row["defaults"]["beta2"] == 0.999
    (tmp_path / "in_a_file.py").write_text("import torch\nclass Mine(torch.optim.SGD): pass\n")
    monkeypatch.chdir(tmp_path)
    assert listed("in_a_file:Mine")[0]["defaults"]["lr"] == torch.optim.SGD([torch.zeros(1)]).defaults["lr"]


def test_an_unknown_one() -> None:
    found = cockpit("Adan", "--json")
    assert found.exit_code == 2
    assert found.stdout == ""
    assert "unknown optimizer 'Adan'; did you mean 'Adam'" in found.stderr
