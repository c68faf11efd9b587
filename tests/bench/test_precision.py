from __future__ import annotations

from typing import Any

import pytest
import torch

from cockpit.bench import precision
from cockpit.core.errors import CockpitError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(("wanted", "expected"), [(False, None), (None, None), (True, "bf16"), ("bf16", "bf16")])
def test_choose_precision(wanted: Any, expected: str | None) -> None:
    assert precision.choose_precision(wanted, CPU) == expected


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """What torch says of a GPU, where there is none."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Old GPU")
    return monkeypatch


def test_what_a_device_cannot_do(gpu: pytest.MonkeyPatch) -> None:
    with pytest.raises(CockpitError, match="fp16 needs a CUDA device, this is cpu; give bf16"):
        precision.choose_precision("fp16", CPU)
    with pytest.raises(CockpitError, match="Old GPU has no bf16; give fp16"):
        precision.choose_precision("bf16", CUDA)
    assert precision.choose_precision("fp16", CUDA) == "fp16"
    with pytest.raises(CockpitError, match="cannot undo; give bf16"):
        precision.choose_precision("fp16", CUDA, closure=True)


def test_choose_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert precision.choose_device(None) == CPU
    assert precision.choose_device("cpu") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert precision.choose_device(None) == CUDA
    with pytest.raises(CockpitError, match="device 'toaster' cannot be used"):
        precision.choose_device("toaster")


def test_autocast() -> None:
    with precision.autocast("bf16", CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with precision.autocast(None, CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_full_precision_is_left_alone(kind: torch.dtype) -> None:
    values = torch.ones(3, dtype=kind)
    assert precision.full(values) is values
    assert precision.full(values.half()).dtype == torch.float32
