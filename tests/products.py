"""Products with the Hessian of a cross entropy, of nets that are chains of layers."""

import torch.nn.functional as F
from cockpit.engine.tangents import TangentProduct, chain_of
from torch import Tensor, nn

from cockpit.engine.autograd.graph import Graph


def product_of(model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, TangentProduct]:
    """The loss, and products with its Hessian."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    loss = F.cross_entropy(model(x), y)
    assert loss.grad_fn is not None
    top = loss.grad_fn.next_functions[0][0].next_functions[0][0]
    chain = chain_of(Graph([loss.grad_fn]), top, parameters)
    assert chain is not None
    return loss, TangentProduct.of([loss], [None], chain, parameters)
