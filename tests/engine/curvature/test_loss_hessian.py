"""The factored Hessian of the loss against a dense one, and which of the three ways was taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.engine.curvature.curved import Curved, curved
from torch import Tensor, nn

from cockpit.core.errors import Undefined
from cockpit.engine.curvature.factors import Columns

N, C, T = 5, 4, 3
LABELS = torch.tensor([0, 3, 1, 1, 2])
GRID = torch.arange(N * T).reshape(N, T) % C
WEIGHT = torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=torch.float64)
TARGET = torch.linspace(-1, 2, N * C, dtype=torch.float64).reshape(N, C)
SOFT = TARGET.softmax(1)

SOFTMAX: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda o: F.cross_entropy(o, LABELS),
    "sum": lambda o: F.cross_entropy(o, LABELS, reduction="sum"),
    "weights": lambda o: F.cross_entropy(o, LABELS, WEIGHT),
    "ignored": lambda o: F.cross_entropy(o, LABELS, ignore_index=1),
    "smooth": lambda o: F.cross_entropy(o, LABELS, WEIGHT, label_smoothing=0.2),
    "probabilities": lambda o: F.cross_entropy(o, SOFT),
    "scaled": lambda o: 1024 * F.cross_entropy(o, LABELS),
    "negative": lambda o: -3 * F.cross_entropy(o, LABELS),
    "advantages": lambda o: (F.cross_entropy(o, LABELS, reduction="none") * TARGET[:, 0]).sum(),  # both signs
    "mixture": lambda o: 0.3 * F.cross_entropy(o, LABELS) + 0.7 * F.cross_entropy(o, LABELS.flip(0)),
    "last axis": lambda o: -(F.log_softmax(o, dim=-1) * SOFT).mean(),
    "viewed": lambda o: F.cross_entropy(o.reshape(N, 1, C).squeeze(1), LABELS),
}
ELEMENTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "mse": lambda o: F.mse_loss(o, TARGET),
    "mse none": lambda o: (F.mse_loss(o, TARGET, reduction="none") * TARGET).sum(),  # both signs
    "bce": lambda o: F.binary_cross_entropy_with_logits(o, SOFT, pos_weight=WEIGHT),
    "huber": lambda o: F.huber_loss(o, TARGET, delta=0.5),
    "smooth l1": lambda o: F.smooth_l1_loss(o, TARGET, reduction="sum"),
}
OTHER: dict[str, Callable[[Tensor], Tensor]] = {
    "focal": lambda o: ((1 - F.cross_entropy(o, LABELS, reduction="none").neg().exp()) ** 2).sum(),
    "log cosh": lambda o: (o - TARGET).cosh().log().mean(),
    "root": lambda o: (F.mse_loss(o, TARGET, reduction="none").sum(1) + 1).sqrt().sum(),
    "entropy": lambda o: F.cross_entropy(o, LABELS) + 0.1 * (o.softmax(1) * o.log_softmax(1)).sum(),
    "linear": lambda o: (o * TARGET).sum(),
    "concave": lambda o: -o.square().sum() + o.pow(4).sum(),
}


def columns_of(
    loss_of: Callable[[Tensor], Tensor], shape: tuple[int, ...] = (N, C), axis: int = 0
) -> tuple[Columns, Tensor]:
    """The factor, and the dense Hessian [N, M, N, M]."""
    given = given_of(loss_of, shape, axis)
    dense = torch.autograd.functional.hessian(loss_of, given.output.detach())
    size = given.output.numel()
    order = torch.arange(size).reshape(shape).movedim(axis, 0).flatten()
    dense = dense.reshape(size, size)[order][:, order]
    samples = shape[axis]
    columns = given.loss.factor([given.source], given.place).columns()
    return columns, dense.reshape(samples, size // samples, samples, size // samples)


def given_of(loss_of: Callable[[Tensor], Tensor], shape: tuple[int, ...] = (N, C), axis: int = 0) -> Curved:
    """A linear layer below the loss."""
    torch.manual_seed(0)
    model = nn.Linear(3, shape[-1]).double()
    return curved(model, torch.randn(*shape[:-1], 3).double(), loss_of, axis)


def rebuilt(columns: Columns) -> Tensor:
    """sum_k sign_k s_k s_k^T of each sample, [N, C, C]; from the seeds, as they are sent."""
    rows, signs = columns.rows(0, len(columns)), columns.signs_of(0, len(columns))
    again = columns.targets[0].gather(columns.seeds(rows)[0]).double()
    assert torch.allclose(again, rows)
    weighted = rows if signs is None else rows * signs[..., None]
    return torch.einsum("kni,knj->nij", weighted, rows)


def check(columns: Columns, dense: Tensor) -> None:
    blocks = torch.stack([dense[n, :, n] for n in range(len(dense))])
    torch.testing.assert_close(rebuilt(columns), blocks, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SOFTMAX)
def test_what_is_linear_in_a_softmax_has_one_column_less_than_classes(name: str) -> None:
    found, dense = columns_of(SOFTMAX[name])
    assert len(found) == C - 1
    check(found, dense)
    both = name in ("negative", "advantages")
    assert (found.signs is not None and bool((found.signs < 0).any())) == both


@pytest.mark.parametrize("name", [*SOFTMAX, *ELEMENTWISE])
def test_a_closed_form_knows_slope_and_product(name: str) -> None:
    loss_of = (SOFTMAX | ELEMENTWISE)[name]
    given = given_of(loss_of)
    parts = given.loss.parts(given.parameters)
    assert parts is not None
    output = given.output.detach().requires_grad_()
    torch.testing.assert_close(parts[0].slope().reshape(N, C), torch.autograd.grad(loss_of(output), output)[0])
    vector = TARGET.flip(0).sin()
    (expected,) = torch.autograd.functional.hvp(loss_of, output, vector)[1:]
    torch.testing.assert_close(parts[0].product(vector.reshape(parts[0].target.shape)).reshape(N, C), expected)


def test_a_hook_on_the_log_softmax_is_obeyed() -> None:
    def loss_of(output: Tensor) -> Tensor:
        log_p = output.log_softmax(1)
        log_p.register_hook(lambda grad: 3 * grad)
        return F.nll_loss(log_p, LABELS)

    plain, _ = columns_of(lambda output: F.cross_entropy(output, LABELS))
    hooked, _ = columns_of(loss_of)
    torch.testing.assert_close(rebuilt(hooked), 3 * rebuilt(plain))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_sum_over_elements_has_one_column_each(name: str) -> None:
    found, dense = columns_of(ELEMENTWISE[name])
    assert found.blocks.shape == (1, N, C, 1)
    check(found, dense)


@pytest.mark.parametrize("name", OTHER)
def test_any_other_loss_is_decomposed(name: str) -> None:
    found, dense = columns_of(OTHER[name])
    assert found.blocks.shape[2:] == (1, C)
    check(found, dense)


def test_columns_of_zeros_are_left_out() -> None:
    assert len(columns_of(OTHER["linear"])[0]) == 0


@pytest.mark.parametrize(
    ("shape", "axis", "loss_of"),
    [
        ((N, T, C), 0, lambda o: F.cross_entropy(o.reshape(-1, C), GRID.flatten())),
        ((T, N, C), 1, lambda o: F.cross_entropy(o.reshape(-1, C), GRID.mT.flatten(), ignore_index=2)),
        ((N, C, T), 0, lambda o: F.cross_entropy(o, GRID, WEIGHT)),
        ((T, C, N), 2, lambda o: -(o.log_softmax(1) * torch.linspace(0, 1, T).reshape(T, 1, 1)).sum()),
        ((N, T, C), 0, lambda o: F.mse_loss(o, torch.zeros(N, T, C).double())),
    ],
    ids=["positions", "time first", "classes second", "samples last", "squares"],
)
def test_several_positions(shape: tuple[int, ...], axis: int, loss_of: Callable[[Tensor], Tensor]) -> None:
    found, dense = columns_of(loss_of, shape, axis)
    assert found.blocks.shape[2] == (T if found.blocks.shape[3] > 1 else T * C)
    check(found, dense)
    halves = torch.cat([found.rows(0, 2), found.rows(2, len(found))])
    assert torch.equal(halves, found.rows(0, len(found)))


def test_a_softmax_over_samples_couples_them() -> None:
    with pytest.raises(Undefined, match="couples the samples"):
        columns_of(lambda o: -(o.log_softmax(0) * SOFT).sum())


def test_a_target_that_moves_with_the_output_is_no_constant() -> None:
    found, dense = columns_of(lambda o: F.mse_loss(o, o.square()))
    assert found.blocks.shape[2:] == (1, C)
    check(found, dense)


def test_not_finite_is_refused() -> None:
    with pytest.raises(Undefined, match="finite"):
        columns_of(lambda o: F.cross_entropy(o * float("inf"), LABELS))
