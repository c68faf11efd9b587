"""Cross entropy itself is backpropagated: its gradient with respect to the log-softmax by one operation.

Autograd takes ten times as long to ask its one node.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Node, family, signed

LOSSES = {
    "NllLossBackward": torch.ops.aten.nll_loss_backward.default,
    "NllLoss2DBackward": torch.ops.aten.nll_loss2d_backward.default,
}
Seeds = Sequence[Tensor | None]


def above(node: Node, roots: Sequence[Tensor], seeds: Seeds) -> bool:
    """Whether it takes this log-softmax: no factor or weight that could be negative."""
    root: Node = roots[0].grad_fn
    direct = len(roots) == 1 and seeds[0] is None and root is not None
    if not direct or family(root) not in LOSSES:
        return False
    return root._saved_weight is None and root.next_functions[0][0] is node


def slope(root: Tensor) -> Tensor:
    """Its gradient with respect to the log-softmax."""
    node: Node = root.grad_fn
    found: Tensor = LOSSES[family(node)](
        torch.ones_like(root),
        node._saved_self.detach(),
        node._saved_target,
        None,
        node._saved_reduction,
        signed(node._saved_ignore_index),
        node._saved_total_weight,
    )
    return found


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the log-softmax stands in the walk: in a familiar graph nothing else need be found out."""

    place: int

    def tensors(self, roots: Sequence[Tensor], seeds: Seeds, nodes: Sequence[Node]) -> tuple[Tensor, ...] | None:
        """What the factor of the loss's Hessian is made of (see ``factors.Softmax``); None if it is another loss."""
        node = nodes[self.place]
        return (node._saved_result.detach(), slope(roots[0])) if above(node, roots, seeds) else None
