"""What the user logs."""

from __future__ import annotations

from tests.panels.made import of, run

from cockpit.panels import deck, panel


def test_shares_are_shown_together() -> None:
    source = of("train_accuracy", {0: 0.1, 1: 0.9}, valid_accuracy={0: 0.1, 1: 0.8}, perplexity={0: 50.0})
    assert {row["k"] for row in panel([source], "metrics").datasets["lines"]} == {"train_accuracy", "valid_accuracy"}
    assert "of-perplexity" in [one.id for one in deck([source])]


def test_without_shares_the_first_one() -> None:
    source = of("perplexity", {0: 50.0}, bleu={0: 30.0})
    assert {row["k"] for row in panel([source], "metrics").datasets["lines"]} == {"perplexity"}


def test_losses_stand_beside_the_loss() -> None:
    source = of("Loss", {0: 1.0}, valid_loss={0: 2.0})
    assert {row["k"]: row["v"] for row in panel([source], "loss").datasets["lines"]} == {
        "mini-batch": 1.0,
        "valid_loss": 2.0,
    }
    assert "of-valid_loss" not in [one.id for one in deck([source])]


def test_nothing_logged() -> None:
    assert "pit.log" in str(panel([of("Loss", {0: 1.0})], "metrics").empty)
    assert panel([run()], "metrics").empty is None


def test_parameter_groups_have_a_line_each() -> None:
    source = of("learning_rate", {0: 0.1}, **{"learning_rate[1]": {0: 0.01}})
    rows = panel([source], "learning-rate").datasets["lines"]
    assert {row["k"]: row["v"] for row in rows} == {"group 0": 0.1, "group 1": 0.01}
    assert not [one.id for one in deck([source]) if one.id.startswith("of-")]
