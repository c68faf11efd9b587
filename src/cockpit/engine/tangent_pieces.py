"""A convolution and what follows it up to max-pooling, a piece of the batch at a time: its result is never whole.

The first results of a network for images are the largest by far, and max-pooling leaves little of them. Convolutions,
ReLUs and max-pooling treat the entries of the first axis one by one, whatever they are.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod

from torch import Tensor

from cockpit.engine import tangent_picked, tangent_pooled
from cockpit.engine.autograd.graph import shapes
from cockpit.engine.column_pass import even, parts_of
from cockpit.engine.sending import ALL, Part
from cockpit.engine.tangent_layers import Convolution, Layer, MaxPool, Relu, Tangents

MOST = {"cpu": 2**22}  # bytes of a result that are made at once; elsewhere few large operations are quicker


class Pieces(Layer):
    """Layers from the top down; the last one is a convolution."""

    def __init__(self, layers: Sequence[Layer], parts: Sequence[Part]) -> None:
        self._above, self._below = layers[:-1], layers[-1]
        super().__init__(layers[0].node, self._below.weights, self._below.has_data)
        self._parts = parts

    def begin(self, slope: Tensor) -> Tensor:
        """The convolution keeps its own."""
        for layer in self._above:
            slope = layer.begin(slope)
        return self._below.begin(slope)

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """From the convolution up."""
        whole: Tensor | None = None
        for part in self._in_turn():
            moved = self._below.push(None if data is None else part.of(data), own)
            for layer in reversed(self._above):
                moved = layer.push(moved, {})
            if moved is not None:
                whole = _put(whole, part, moved)
        return whole

    def pull(self, grad: Tensor) -> Tensor:
        """From the top down."""
        found = self._back(grad, lambda piece: (self._below.pull(piece), {}))[0]
        assert found is not None
        return found

    def backward(self, grad: Tensor) -> tuple[Tensor | None, Tangents]:
        """From the top down."""
        return self._back(grad, self._below.backward)

    def product_rule(self, grad: Tensor, own: Tangents) -> tuple[Tensor | None, Tangents]:
        """From the top down."""
        self._below.moved = self.moved
        found = self._back(grad, lambda piece: self._below.product_rule(piece, own))
        self._below.moved = None
        return found

    def _back(
        self, grad: Tensor, below: Callable[[Tensor], tuple[Tensor | None, Tangents]]
    ) -> tuple[Tensor | None, Tangents]:
        whole: Tensor | None = None
        sums: Tangents = {}
        for part in self._in_turn():
            piece = part.of(grad)
            for layer in self._above:
                piece = layer.pull(piece)
            data, found = below(piece)
            whole = whole if data is None else _put(whole, part, data)
            sums = {slot: sums[slot].add_(more) if slot in sums else more for slot, more in found.items()}
        return whole, sums

    def _in_turn(self) -> Iterator[Part]:
        layers = (*self._above, self._below)
        for part in (*self._parts, ALL):
            for layer in layers:
                layer.part = part
            if part is not ALL:
                yield part


def _put(whole: Tensor | None, part: Part, piece: Tensor) -> Tensor:
    if whole is None:
        whole = piece.new_empty(part.total, *piece.shape[1:])
    part.of(whole).copy_(piece)
    return whole


def in_pieces(chain: Sequence[Layer], device: str) -> list[Layer]:
    """The same chain; what max-pooling drops is not made, or is passed over, or large results are made in pieces."""
    found: list[Layer] = []
    for layer in chain:
        found.append(layer)
        if isinstance(layer, Convolution):
            above = _followers(found)
            one = _as_one([*above, layer], MOST.get(device))
            if one is not None:
                found[-len(above) - 1 :] = [one]
    return found


def _as_one(layers: Sequence[Layer], most: int | None) -> Layer | None:
    """A convolution and what follows, from the top down, as one layer."""
    if tangent_pooled.suits(layers):
        return tangent_pooled.Pooled(layers)
    if tangent_picked.suits(layers):
        return tangent_picked.Picked(layers)
    parts = [] if most is None else _parts(layers[-1], most)
    pooled = any(isinstance(follower, MaxPool) for follower in layers)
    return Pieces(layers, parts) if len(parts) > 1 and pooled else None


def _followers(chain: Sequence[Layer]) -> list[Layer]:
    """What stands right above the last layer of a chain and treats entries one by one, from the top down."""
    count = 0
    while count + 1 < len(chain) and isinstance(chain[-count - 2], Relu | MaxPool):
        count += 1
    return list(chain[-count - 1 : -1])


def _parts(layer: Layer, most: int) -> list[Part]:
    shape = shapes(layer.node)[0]
    each = prod(shape[1:]) * layer.node._input_metadata[0].dtype.itemsize
    return parts_of(shape[0], even(shape[0], most // max(1, each)))
