"""Matrix products: linear layers with any leading dimensions, attention and recurrent projections."""

from typing import Any

import torch
from torch import Tensor

from cockpit.layers._rule import Rule, Use
from cockpit.layers.elementwise import broadcast
from cockpit.layers.forms import Factored, Form
from cockpit.layers.layout import Layout


def addmm(use: Use) -> Form | None:
    """``out = beta * self + alpha * mat1 @ mat2``."""
    if use.slot == 0:
        beta = use.node._saved_beta
        return broadcast(use, use.grad if beta == 1 else use.grad * beta)
    return _product(use, use.node._saved_mat1, use.node._saved_mat2, use.slot - 1, use.node._saved_alpha)


def mm(use: Use) -> Form | None:
    """``out = self @ mat2``."""
    return _product(use, use.node._saved_self, use.node._saved_mat2, use.slot, 1)


def bmm(use: Use) -> Form | None:
    """``out[k] = self[k] @ mat2[k]`` with the parameter shared by all samples: one matrix (einsum, matmul)."""
    if use.shape[0] != 1:
        return None
    grad = use.grad[0]
    left, right = (None if saved is None else saved[0] for saved in (use.node._saved_self, use.node._saved_mat2))
    factored = _product(use, left, right, use.slot, 1, grad)
    return None if factored is None else Factored(use.shape, factored.row, factored.col)


def _product(
    use: Use, left: Tensor | None, right: Tensor | None, slot: int, alpha: Any, grad: Tensor | None = None
) -> Factored | None:
    """``left @ right`` where operand ``slot`` is the parameter: g = left^T grad, or grad right^T."""
    grad = use.grad if grad is None else grad
    layout = use.layout
    if any(m is not None and m.layout is not torch.strided for m in (left, right)):
        return None  # a sparse matrix (the edges of a graph) has no rows to take apart
    if slot == 1 and left is not None and layout.in_rows_of(grad.shape[1]):
        rows = Layout(layout.samples, layout.inner // grad.shape[1])  # in units of rows
        row, col = (Layout(rows.samples, rows.inner * m.shape[1]).rows(m) for m in (left, grad))
    elif slot == 0 and right is not None and grad.shape[1] % (layout.samples * layout.inner) == 0:
        row, col = (Layout(layout.samples, layout.inner * m.shape[0]).rows(m.mT) for m in (grad, right))
    else:
        return None
    scaled = row if alpha == 1 else row * alpha
    return Factored(use.shape, scaled.unsqueeze(1), col.unsqueeze(1))


RULES: dict[str, Rule] = {"AddmmBackward": addmm, "MmBackward": mm, "BmmBackward": bmm}
