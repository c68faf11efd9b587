from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.bench.folders import LONGEST, run_folder, safe, settings


@pytest.mark.parametrize(
    ("hyperparameters", "extras", "expected"),
    [
        ({"momentum": 0.9, "lr": 0.001}, {}, "lr_1e-03__momentum_0.9"),
        ({"lr": 0.15848931924611134}, {}, "lr_1.5848931924611134e-01"),
        ({"lr": 1, "nesterov": True, "name": None}, {}, "lr_1e+00__name_None__nesterov_True"),
        ({"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8}, {}, "lr_1e-01__betas_0.9,0.999__eps_1e-08"),
        ({"lr": 0.1}, {"epochs": 5, "no_validation": True}, "lr_1e-01__epochs_5__no_validation"),
        ({"lr": 0.1}, {"schedule": "0.1@80,120", "l2": 5e-4}, "lr_1e-01__schedule_0.1@80,120__l2_0.0005"),
        ({"lr": 0.1, "a/b": "../x y"}, {}, "lr_1e-01__a-b_x-y"),
    ],
)
def test_settings(hyperparameters: dict[str, object], extras: dict[str, object], expected: str) -> None:
    assert settings(hyperparameters, extras) == expected


def test_numbers_that_differ_have_other_names() -> None:
    assert settings({"lr": 0.1, "eps": 0.1 + 2**-50}, {}) != settings({"lr": 0.1, "eps": 0.1}, {})
    assert settings({"lr": 0.1 + 2**-50}, {}) != settings({"lr": 0.1}, {})


def test_the_order_of_hyperparameters_does_not_matter() -> None:
    assert settings({"lr": 0.1, "a": 1, "b": 2}, {}) == settings({"b": 2, "a": 1, "lr": 0.1}, {})


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    one, two = (settings({f"parameter_{i}": i / 7 for i in range(40)} | {"z": last}, {}) for last in (1, 2))
    assert len(one) <= LONGEST
    assert one != two


@pytest.mark.parametrize(("text", "expected"), [("a/../b", "a-..-b"), ("<lambda>", "lambda"), ("Grüße", "Gr-e")])
def test_safe(text: str, expected: str) -> None:
    assert safe(text) == expected


def test_names_without_a_safe_letter_stay_their_own() -> None:
    found = {safe(text) for text in ("", "..", "../..", "ü", "é")}
    assert len(found) == 5
    assert all(name.startswith("unnamed-") for name in found)


def test_long_names_of_problems_and_optimizers_are_cut() -> None:
    folder = run_folder(Path("out"), "x" * 300, "y" * 300, {"lr": 0.5}, {}, 3)
    assert max(map(len, folder.parts)) <= LONGEST


def test_run_folder() -> None:
    folder = run_folder(Path("out"), "tiny", "SGD", {"lr": 0.5}, {"batch": 64}, 3)
    assert folder.as_posix() == "out/tiny/SGD/lr_5e-01__batch_64/seed_3"
