"""Products with the Hessian without differentiating twice, for chains of layers and piecewise linear operations.

Moving the parameters along v moves every result of the network; its velocity is pushed forward through what the graph
saved, and the velocity of the gradient is pulled back (Pearlmutter 1994). A layer z = a W contributes by the product
rule: z' = a' W + a W' on the way up, and on the way down what its backward gives for (d', a, W) plus for (d, a', W'),
with d the gradient at z. Everything else is linear between its kinks, and the loss is asked of autograd. That makes two
calls of each layer's forward and two of its backward; autograd's double backward of a convolution takes longer.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Graph, Node, edge, family
from cockpit.engine.autograd.trust import agree
from cockpit.engine.branches import side_by_side
from cockpit.engine.double_backward import Product, Vectors
from cockpit.engine.squares import rearranged
from cockpit.engine.tangent_layers import DATA, LAYERS, Layer, Tangents
from cockpit.engine.tangent_pieces import in_pieces


def chain_of(graph: Graph, top: Node, parameters: Mapping[str, Tensor]) -> list[Layer] | None:
    """The network below ``top`` as a chain, from the top down; None where it is no such network."""
    uses = {(path.node, path.slot): path for path in graph.paths(parameters, ())}
    chain: list[Layer] = []
    node: Node | None = top
    while node is not None:
        kind = LAYERS.get(family(node))
        users = graph.users.get(node, ())
        if kind is None or len(users) != 1 or len(node._input_metadata) != 1 or not _single(node):
            return None
        data = DATA.get(family(node), 0)
        layer, below = kind(node), None
        for slot, (operand, _) in enumerate(node.next_functions):
            path = uses.pop((node, slot), None)
            if path is not None and slot != data and rearranged(path):
                layer.weights[slot] = path
            elif operand is not None and (slot != data or path is not None):
                return None
            elif operand is not None:
                below, layer.has_data = operand, True
        chain.append(layer)
        node = below
    return None if uses or graph.tangled else chain


def _single(node: Node) -> bool:
    """Plain sums and precisions."""
    meta = node._input_metadata[0]
    if meta.dtype not in (torch.float32, torch.float64):
        return False
    if family(node) == "AddmmBackward":
        return bool(node._saved_alpha == 1 and node._saved_beta == 1)
    return len(meta.shape) == 4 if family(node).startswith("MaxPool2D") else True


class TangentProduct(Product):
    """v -> H v; ``slope`` is the gradient at the network's output, ``of_loss`` multiplies by the loss's own Hessian."""

    def __init__(
        self, chain: list[Layer], parameters: Mapping[str, Tensor], slope: Tensor, of_loss: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__(parameters)
        self.chain, self.of_loss = in_pieces(chain, slope.device.type), of_loss
        with torch.no_grad():
            slope = slope.clone()
            for layer in self.chain:
                if not layer.has_data:
                    break
                slope = layer.begin(slope)

    @classmethod
    def of(
        cls,
        roots: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        chain: list[Layer],
        parameters: Mapping[str, Tensor],
    ) -> "TangentProduct":
        """The loss is asked of autograd."""
        top = [edge(chain[0].node)]
        with torch.enable_grad():
            slope = torch.autograd.grad(list(roots), top, list(seeds), create_graph=True)[0]

        def of_loss(moved: Tensor) -> Tensor:
            if not slope.requires_grad:
                return torch.zeros_like(moved)
            return torch.autograd.grad(slope, top, moved, retain_graph=True)[0]

        return cls(chain, parameters, slope.detach(), of_loss)

    @torch.no_grad()
    def __call__(self, vectors: Vectors) -> Vectors:
        """Return H v."""
        self.products += 1
        own = [_operands(layer, vectors) for layer in self.chain]
        gradients = list[tuple[Layer, Tangents]]()
        with side_by_side(next(iter(vectors.values())).device):
            moved = self._push(own)
            grad = None if moved is None else self.of_loss(moved)
            for layer, tangents in zip(self.chain, own, strict=True):
                if grad is None:
                    break
                grad, parts = layer.product_rule(grad, tangents)
                gradients.append((layer, parts))
                layer.moved = None
        found: Vectors = {}
        for layer, parts in gradients:
            self._collect(layer, parts, found)
        return {name: found[name] if name in found else torch.zeros_like(v) for name, v in vectors.items()}

    @torch.no_grad()
    def agrees(self, vectors: Vectors) -> bool | None:
        """Whether autograd pulls what is pushed here, and the product is symmetric: tried with one direction.

        A hook of the user's on an intermediate result, which cannot be seen, may change gradients.
        """
        moved = self._push([_operands(layer, vectors) for layer in self.chain])
        if moved is None:
            return False
        named = self.parameters
        pulled = torch.autograd.grad(
            [edge(self.chain[0].node)], list(named.values()), moved, retain_graph=True, allow_unused=True
        )
        slow = dict(zip(named, pulled, strict=True))
        length, grad, quick = _inner({"": moved}, {"": moved}), moved, Vectors()
        for layer in self.chain:
            layer.moved = None
            data, parts = layer.backward(grad)
            self._collect(layer, parts, quick)
            if data is None:
                break
            grad = data
        back = _inner(vectors, {name: part for name, part in slow.items() if part is not None})
        found = agree([*((slow[name], quick.get(name)) for name in slow), (length, back)])
        if not found:
            return found
        image = self(vectors)
        return agree([(_inner(image, image), _inner(vectors, self(image)))])

    def _push(self, own: Sequence[Tangents]) -> Tensor | None:
        """Velocity of the network's output; layers remember that of their data."""
        moved: Tensor | None = None
        upwards = list(zip(reversed(self.chain), reversed(own), strict=True))
        for layer, tangents in upwards:
            layer.ahead(tangents)
        for place, (layer, tangents) in enumerate(upwards):
            layer.moved = moved if layer.weights else None
            moved = layer.push(moved, tangents)
            if place:
                below, its = upwards[place - 1]
                below.behind(its)
        layer.behind(tangents)
        return moved

    def _collect(self, layer: Layer, parts: Tangents, found: Vectors) -> None:
        for slot, part in parts.items():
            name, own = layer.weights[slot].name, layer.own(slot, part)
            found[name] = found[name] + own if name in found else own


def _inner(one: Vectors, other: Vectors) -> Tensor:
    return torch.stack([(one[name] * part).sum() for name, part in other.items()]).sum()


def _operands(layer: Layer, vectors: Vectors) -> Tangents:
    return {slot: layer.operand(slot, vectors[path.name]) for slot, path in layer.weights.items()}
