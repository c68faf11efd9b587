"""Individual gradients of a part of the model: what is measured of them says so wherever it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.small import cross_entropies as losses_of
from tests.small import draw, expected, individual_gradients, net, reasons, sgd, train, twin, watch
from torch import Tensor, nn

from cockpit.core.record import COVERED, percent
from cockpit.panels import deck, layers
from cockpit.plots.summary import summary
from cockpit.plots.terminal import present
from cockpit.quantities import QUANTITIES
from cockpit.store import StoredRun
from cockpit.tracking.watched import Watch

PARTLY = {"NormTest", "InnerTest", "OrthoTest", "GradHist1d", "GradHist2d", "TICDiag", "TICTrace", "CABS"}
PARTLY |= {"EarlyStopping", "MeanGSNR"}


def test_a_part_is_never_the_whole_in_words() -> None:
    assert [percent(share) for share in (0.0, 1e-5, 0.5, 0.9999, 1.0)] == [
        "0.0%",
        "under 0.1%",
        "50.0%",
        "over 99.9%",
        "100.0%",
    ]


def partly(run: Path | bool = False, quantities: object = None) -> tuple[Watch, nn.Sequential]:
    """The small net, one weight of which has a gradient that no sum of the samples gives."""
    model = net()
    model[2].weight.register_hook(lambda grad: grad * 2)
    optimizer, loss_fn = sgd(model), nn.CrossEntropyLoss()
    with watch(model, optimizer, loss_fn, list(QUANTITIES) if quantities is None else quantities, run=run) as pit:
        train(model, optimizer, loss_fn, draw(6, 6, 6))
    return pit, model


def test_every_record_of_a_part_says_its_share() -> None:
    pit, _ = partly()
    size = sum(p.numel() for p in net().parameters())
    share = 1 - net()[2].weight.numel() / size
    marked = {record.name: record.details[COVERED] for record in pit.history if COVERED in record.details}
    assert marked == dict.fromkeys(PARTLY, pytest.approx(share))


def test_the_numbers_are_those_of_the_part() -> None:
    pit, _ = partly()
    x, y = draw(6)[0]
    g_n = individual_gradients(twin(net()), losses_of(x, y))
    rest = {name: g for name, g in g_n.items() if name != "2.weight"}
    assert pit.get_output()[0]["NormTest"] == pytest.approx(norm_test(rest))
    assert pit.get_output()[0]["NormTest"] != pytest.approx(expected(net(), x, y)["NormTest"], rel=1e-3)


def norm_test(g_n: dict[str, Tensor]) -> float:
    size = len(next(iter(g_n.values())))
    norms = sum(float(g.square().sum()) for g in g_n.values())
    mean = sum(float(g.mean(0).square().sum()) for g in g_n.values())
    return float(((norms / mean - size) / (size * (size - 1))) ** 0.5)


def test_no_alpha_from_a_part_of_the_slope() -> None:
    pit, _ = partly()
    assert all(row["Alpha"] is None for row in pit.get_output().values())
    assert any("all elements" in reason and "explain()" in reason for reason in reasons(pit, "Alpha"))


def test_whole_coverage_is_not_marked() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, list(QUANTITIES)) as pit:
        train(model, optimizer, loss_fn, draw(6, 6))
    assert not any(COVERED in record.details for record in pit.history)
    assert all("elements" not in panel.title or "Gradient elements" in panel.title for panel in deck([pit.source()]))


def test_it_is_read_on_the_page_in_the_terminal_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pit, model = partly(tmp_path / "run")
    share = 1 - model[2].weight.numel() / sum(p.numel() for p in model.parameters())
    words = f"{share:.1%} of all elements"
    for source in (pit.source(), StoredRun(tmp_path / "run")):
        shown = [one for one in [*deck([source]), *layers(source, name="GradHist1d")] if not one.empty]
        for one in shown:
            assert (words in one.title) == bool(PARTLY & set(one.names)), one.title
        facts = summary(source)["quantities"]
        assert {name for name, it in facts.items() if "covered" in it} == PARTLY
        assert facts["NormTest"]["covered"] == pytest.approx(share)
    present(tmp_path / "run", json=False, keep_on=False)
    assert f"Of {share:.1%} of all elements only:" in capsys.readouterr().out.replace("\n", " ")
    present(tmp_path / "run", json=True, keep_on=False)
    assert json.loads(capsys.readouterr().out)["quantities"]["NormTest"]["covered"] == pytest.approx(share)
    pit.show()
    assert f"Of {share:.1%} of all elements only:" in capsys.readouterr().out.replace("\n", " ")


def test_steps_that_were_whole_are_told_from_those_that_were_not() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn) as pit:
        train(model, optimizer, loss_fn, draw(6, 6))
        model[2].weight.register_hook(lambda grad: grad * 2)
        train(model, optimizer, loss_fn, draw(6))
    titles = {one.id: one.title for one in deck([pit.source()])}
    assert titles["tests-time"].endswith("of all elements at 1 step")


class Critic:
    """A critic with a gradient penalty for each sample: a term that does not go through what the model returned."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        for p in self.model.parameters():
            nn.init.normal_(p, generator=torch.Generator().manual_seed(p.numel()))
        self.real, self.fake = (x for x, _ in draw(6, 6))

    def parts(self, net: Callable[[Tensor], Tensor]) -> list[Tensor]:
        real, fake = self.real, self.fake
        between = (0.3 * real + 0.7 * fake).requires_grad_()
        slopes = torch.autograd.grad(net(between).sum(), between, create_graph=True)[0]
        return [net(fake)[:, 0], -net(real)[:, 0], 10 * (slopes.norm(dim=1) - 1) ** 2]

    def step(self, told: bool) -> tuple[Watch, Any]:
        optimizer = sgd(self.model)
        g_n = individual_gradients(self.model, lambda model: torch.stack(self.parts(model.forward)).sum(0))
        with watch(self.model, optimizer) as pit:
            parts = self.parts(self.model)
            loss = pit.loss(torch.stack(parts).sum(0)) if told else torch.stack([part.mean() for part in parts]).sum()
            loss.backward()
            optimizer.step()
        return pit, g_n


def test_a_penalty_for_each_sample_is_left_out_with_a_remedy() -> None:
    pit, _ = Critic().step(told=False)
    assert all("pit.loss" in reason for name, reason in pit._tracker.coverage.uncovered.items())
    assert len(pit._tracker.coverage.uncovered) == 3
    assert reasons(pit, "NormTest") == ["the gradient is zero on the 3.4% that are covered, see explain()"]


def test_the_remedy_works() -> None:
    pit, g_n = Critic().step(told=True)
    assert pit.get_output()[0]["NormTest"] == pytest.approx(norm_test(g_n))
    assert not pit._tracker.coverage.uncovered


def test_a_penalty_towards_other_weights_is_left_out_with_a_remedy() -> None:
    """Numbers beside a parameter leave no trace in the graph: they may be those of samples."""
    for after in (False, True):
        model, loss_fn, (x, y) = net(), nn.CrossEntropyLoss(), draw(6)[0]
        optimizer, start = sgd(model), [p.detach().clone() + 1 for p in model.parameters()]
        with watch(model, optimizer, loss_fn) as pit:
            away = sum((p - q).square().sum() for p, q in zip(model.parameters(), start, strict=True))
            loss_fn(model(x), y).backward() if after else (loss_fn(model(x), y) + away).backward()
            for p, q in zip(model.parameters(), start, strict=True) if after else ():
                p.grad.add_(2 * (p.detach() - q))
            optimizer.step()
        if after:
            assert pit.get_output()[0]["NormTest"] == pytest.approx(expected(net(), x, y)["NormTest"])
        else:
            assert "after backward()" in reasons(pit, "NormTest")[0]
