"""A convolution, ReLUs and max-pooling as one layer on a CPU: only what max-pooling picked is made, and nothing of the
convolution's own size. Behind windows of two by two that is a quarter of the work."""

from collections.abc import Sequence

from torch import Tensor

from cockpit.engine import native
from cockpit.engine.autograd.graph import shapes
from cockpit.engine.native.picked import Pair, listable
from cockpit.engine.scattered import Scattered, picked
from cockpit.engine.tangent_layers import Convolution, Layer, MaxPool, Relu, Tangents
from cockpit.engine.windows import Windows

WEIGHT, BIAS = 1, 2


class Picked(Layer):
    """Layers from the top down; the last one is the convolution."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        conv = layers[-1].node
        super().__init__(layers[0].node, layers[-1].weights, layers[-1].has_data)
        signal, weight = conv._saved_input.detach(), conv._saved_weight.detach()
        self._picks = picked(chosen(layers[:-1]), tuple(signal.shape), Windows.of(conv))
        self._picks.settle(self.has_data)
        self._grid, self._size = self._picks.grid, tuple(shapes(self.node)[0])
        self._signal, self._rows = self._grid.images(signal), self._grid.rows(weight)
        self._images: Tensor | None = None  # velocities of the data and of the weights, as they were pushed
        self._velocity: Tensor | None = None

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """Results of the data with the weights' velocity, and the other way round."""
        self._velocity = self._grid.rows(own[WEIGHT]) if WEIGHT in own else None
        self._images = None if data is None else self._grid.images(data)
        moved = None if self._velocity is None else (self._signal, self._velocity)
        along = None if self._images is None else (self._images, self._rows)
        if moved is None and along is None and BIAS not in own:
            return None
        return self._picks.forward(moved, along, own.get(BIAS)).view(self._size)

    def pull(self, grad: Tensor) -> Tensor:
        """Through the weight."""
        return self._grid.signal(self._picks.data((self._rows, grad), None))

    def backward(self, grad: Tensor) -> tuple[Tensor | None, Tangents]:
        """Of the weight and of the data."""
        return self._both(grad, None, None)

    def product_rule(self, grad: Tensor, own: Tangents) -> tuple[Tensor | None, Tangents]:
        """The backward of the layer, and the other half; both velocities have been pushed."""
        velocity, images, self._velocity, self._images = self._velocity, self._images, None, None
        if self.slope is None or velocity is None:
            return self._both(grad, None, None)
        return self._both(grad, None if images is None else (images, self.slope), (velocity, self.slope))

    def _both(self, grad: Tensor, moved: Pair | None, along: Pair | None) -> tuple[Tensor | None, Tangents]:
        found = Tangents()
        if self.weights:
            rows, bias = self._picks.weights((self._signal, grad), moved)
            both = {WEIGHT: self._grid.weight(rows), BIAS: bias}
            found = {slot: both[slot] for slot in self.weights}
        if not self.has_data:
            return None, found
        return self._grid.signal(self._picks.data((self._rows, grad), along)), found


def chosen(above: Sequence[Layer]) -> Scattered:
    """The places that max-pooling takes of the convolution's result, but for those that a ReLU sets to zero."""
    pool = next(layer for layer in above if isinstance(layer, MaxPool))
    index = pool.node._saved_result1
    places = Scattered.of(index[None], index, tuple(pool.node._saved_self.shape))  # of which no value is read
    for layer in above[above.index(pool) + 1 :]:
        places = places.where_positive(layer.node._saved_result)
    for layer in above[: above.index(pool)]:
        places = places.where_kept(~(layer.node._saved_result.flatten(2) <= 0))
    return places


def follows_a_convolution(layers: Sequence[Layer]) -> bool:
    """Whether layers, from the top down, are max-pooling and ReLUs over a plain convolution of images."""
    *above, last = layers
    if not isinstance(last, Convolution) or not all(isinstance(layer, MaxPool | Relu) for layer in above):
        return False
    node = last.node
    plain = not node._saved_transposed and node._saved_groups == 1 and node._saved_weight.dim() == 4
    return plain and sum(isinstance(layer, MaxPool) for layer in above) == 1


def suits(layers: Sequence[Layer]) -> bool:
    """Whether layers, from the top down, can go as one."""
    conv, listed = layers[-1].node, listable(shapes(layers[0].node)[0])
    return listed and follows_a_convolution(layers) and native.usable(conv._saved_input, conv._saved_weight)
