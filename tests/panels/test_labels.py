"""Names of layers that can be told apart."""

from __future__ import annotations

from cockpit.panels.labels import MOST, labels

PARTS = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
GPT = ["transformer.wte", "transformer.wpe", *(f"transformer.h.{n}.{p}" for n in range(12) for p in PARTS)]
BERT = [f"bert.encoder.layer.{n}.{p}" for n in range(12) for p in ("attention.self.query", "attention.output.dense")]


def test_what_all_share_is_left_out() -> None:
    found = labels([*GPT, "transformer.ln_f"])
    assert found[:3] == ["wte", "wpe", "h.0.ln_1"]
    assert found[-2:] == ["h.11.mlp.c_proj", "ln_f"]
    assert len(set(found)) == 75


def test_long_names_are_shortened_in_the_middle() -> None:
    found = labels([*BERT, "classifier"])
    assert found[0] == "b.e.l.0.a.self.query"
    assert all(len(label) <= MOST for label in found)
    assert len(set(found)) == len(found)
    assert labels(["a" * 15 + "b" * 15]) == ["a" * 9 + "…" + "b" * 10]


def test_different_names_stay_different() -> None:
    twins = [f"block.{'x' * 30}{n}{'y' * 30}.weight" for n in range(3)]
    assert len(set(labels(twins))) == 3
    assert labels(["only.one"]) == ["only.one"]
    assert labels(["0", "0"]) == ["0", "0"]
    assert labels([]) == []
