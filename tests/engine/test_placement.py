"""Samples are found wherever they are: the same numbers from every arrangement of the same batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cockpit import watch


class Language(nn.Module):
    """A small language model, batch first or time first, with a flattened output or not."""

    def __init__(self, time_first: bool, flat: bool) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(11, 6), nn.LSTM(6, 5, batch_first=not time_first)
        self.head, self.flat = nn.Linear(5, 11), flat

    def forward(self, words: Tensor) -> Tensor:
        logits = self.head(self.body(self.words(words))[0])
        return logits.reshape(-1, 11) if self.flat else logits


def measured(samples: int, length: int, time_first: bool, flat: bool) -> dict[str, object]:
    torch.manual_seed(0)
    model, loss_fn = Language(time_first, flat).double(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, loss_fn, every=1, batch_axis=int(time_first)) as pit:
        for _ in range(3):
            words, targets = torch.randint(0, 11, (2, samples, length))
            words, targets = (words.mT, targets.mT) if time_first else (words, targets)
            optimizer.zero_grad()
            loss_fn(model(words).reshape(-1, 11), targets.reshape(-1)).backward()
            optimizer.step()
    return pit.get_output()[1]


@pytest.mark.parametrize(("samples", "length"), [(4, 3), (4, 4), (3, 8), (2, 6)])
def test_every_order_of_the_same_batch(samples: int, length: int) -> None:
    expected = measured(samples, length, time_first=False, flat=False)
    for time_first, flat in ((False, True), (True, False), (True, True)):
        found = measured(samples, length, time_first, flat)
        for name in ("NormTest", "InnerTest", "OrthoTest", "Alpha"):
            assert found[name] == pytest.approx(expected[name], rel=1e-9), (time_first, flat, name)


@pytest.mark.parametrize("shared", [1, 3])
def test_an_input_that_all_samples_share_is_not_the_batch(shared: int) -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, shift: Tensor, inputs: Tensor) -> Tensor:
            return self.layer(inputs + shift.mean(0))

    model, loss_fn = Shifted(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, loss_fn, quantities=["GradHist1d"], every=1) as pit:
        loss_fn(model(torch.randn(shared, 3), torch.randn(6, 3)), torch.randint(0, 2, (6,))).backward()
        optimizer.step()
    assert pit.get_output()[0]["GradHist1d"].counts.sum() == 6 * 8
