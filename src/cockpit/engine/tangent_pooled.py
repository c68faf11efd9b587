"""A convolution, ReLUs and max-pooling as one layer on a GPU, with the channels last.

Convolutions there are quick with all their zeros, as long as channels lie side by side; what takes the time are passes
over results of a convolution's size. Here nothing but the convolutions themselves is of that size: ReLUs and the bias
meet what max-pooling picked, of which there is a quarter or less.
"""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.engine.autograd.graph import shapes
from cockpit.engine.branches import beside
from cockpit.engine.conv_squares import Convolution as Unfolded
from cockpit.engine.picking import picking
from cockpit.engine.tangent_layers import Convolution, Layer, MaxPool, Tangents
from cockpit.engine.tangent_picked import BIAS, WEIGHT, chosen, follows_a_convolution
from cockpit.layers.forms import as_convolutions

NARROW = 128  # elements of a kernel up to which patches are kept where nothing moves below


class Pooled(Layer):
    """Layers from the top down; the last one is the convolution."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        below = layers[-1]
        super().__init__(layers[0].node, below.weights, below.has_data)
        assert isinstance(below, Convolution)
        self._conv = _Patches(below) if _narrow(below) else _ChannelsLast(below)
        self._result = tuple(shapes(below.node)[0])  # [N, O, *positions]
        self._size = tuple(shapes(self.node)[0])
        pool = next(layer.node for layer in layers if isinstance(layer, MaxPool))
        self._picking = picking(chosen(layers[:-1]), pool, below.node._saved_weight)
        self._ones: Tensor = below.node._saved_weight.new_ones(len(self._picking) // self._size[1])

    def begin(self, slope: Tensor) -> Tensor:
        """The gradient at the convolution's result is kept."""
        grad = self._spread(slope)
        self.slope = grad if self.weights else None
        return self._conv.data(grad)

    def ahead(self, own: Tangents) -> None:
        """The data, with the weights' velocity."""
        if WEIGHT in own:
            self.pushed = beside(partial(self._conv.push, None, own[WEIGHT]))

    def behind(self, own: Tangents) -> None:
        """The gradient, with the weights' velocity."""
        if WEIGHT in own and self.slope is not None:
            self.pulled = beside(partial(self._conv.data, self.slope, own[WEIGHT]))

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """Results of the data with the weights' velocity, and the other way round; then those that were picked."""
        parts, bias = [self._conv.push(data, None)], own.get(BIAS)
        if self.pushed is not None:
            parts, self.pushed = [*parts, self.pushed.now()], None
        moved = [_flat(part) for part in parts if part is not None]
        if moved:
            return self._images(self._picking.pick(moved, bias), self._size)
        if bias is None:
            return None
        return self._images(self._picking.kept(bias.repeat(len(self._picking) // len(bias))), self._size)

    def pull(self, grad: Tensor) -> Tensor:
        """Through the weight."""
        return self._conv.data(self._spread(grad))

    def backward(self, grad: Tensor) -> tuple[Tensor | None, Tangents]:
        """Of the weight and of the data."""
        return self.product_rule(grad, {})

    def product_rule(self, grad: Tensor, own: Tangents) -> tuple[Tensor | None, Tangents]:
        """The backward of the layer, and the other half."""
        whole, found = self._spread(grad), Tangents()
        if BIAS in self.weights:
            found[BIAS] = beside(partial(self._of_bias, grad), grad).value
        if WEIGHT in self.weights:
            velocity = self.moved if WEIGHT in own else None
            found[WEIGHT] = beside(partial(self._of_weight, whole, velocity), (whole, velocity)).value
        if not self.has_data:
            return None, found
        data = self._conv.data(whole)
        if self.pulled is not None and own:
            data, self.pulled = data.add_(self.pulled.now()), None
        return data, found

    def _of_weight(self, grad: Tensor, velocity: Tensor | None) -> Tensor:
        found = self._conv.weight(grad)
        if velocity is not None and self.slope is not None:
            found += self._conv.weight(self.slope, velocity)
        return found

    def _of_bias(self, grad: Tensor) -> Tensor:
        rows = self._picking.kept(_flat(grad)).view(-1, self._size[1])
        return rows.mT @ self._ones  # quicker than a sum over the first axis

    def _spread(self, grad: Tensor) -> Tensor:
        return self._images(self._picking.spread(_flat(grad)), self._result)

    def _images(self, values: Tensor, shape: tuple[int, ...]) -> Tensor:
        samples, channels, height, width = shape
        return values.view(samples, height, width, channels).permute(0, 3, 1, 2)


class _ChannelsLast:
    """Products of a convolution with the channels last."""

    def __init__(self, layer: Convolution) -> None:
        self._layer, node = layer, layer.node
        self._input, self._weight = _last(node._saved_input), _last(node._saved_weight)

    def push(self, data: Tensor | None, weight: Tensor | None) -> Tensor | None:
        settings, found = self._layer.settings(), None
        if data is not None:
            found = torch.ops.aten.convolution(_last(data), self._weight, None, *settings)
        if weight is not None:
            part = torch.ops.aten.convolution(self._input, _last(weight), None, *settings)
            found = part if found is None else found.add_(part)
        return found

    def data(self, grad: Tensor, weight: Tensor | None = None) -> Tensor:
        weight = self._weight if weight is None else _last(weight)
        found = self._layer.backward_of(grad, self._input, weight, (True, False, False))[0]
        assert found is not None
        return found

    def weight(self, grad: Tensor, data: Tensor | None = None) -> Tensor:
        data = self._input if data is None else _last(data)
        found = self._layer.backward_of(grad, data, self._weight, (False, True, False))[1]
        assert found is not None
        return found


class _Patches(_ChannelsLast):
    """The same for few channels, where nothing moves below: products of matrices are quicker."""

    def __init__(self, layer: Convolution) -> None:
        super().__init__(layer)
        self._patches = Unfolded.of(layer.node).aligned()  # [N, T, I and some zeros]

    def push(self, data: Tensor | None, weight: Tensor | None) -> Tensor | None:
        if data is not None or weight is None:
            return super().push(data, weight)
        rows = weight.movedim(1, -1).flatten(1)  # channels last
        rows = F.pad(rows, (0, self._patches.shape[2] - rows.shape[1]))
        with as_convolutions(rows):
            found = self._patches.flatten(0, 1) @ rows.mT
        samples, channels, height, width = shapes(self._layer.node)[0]
        return found.view(samples, height, width, channels).permute(0, 3, 1, 2)

    def weight(self, grad: Tensor, data: Tensor | None = None) -> Tensor:
        if data is not None:
            return super().weight(grad, data)
        columns = grad.permute(0, 2, 3, 1).flatten(1, 2)
        with as_convolutions(columns):
            found = (columns.mT @ self._patches).sum(0)  # for each sample: so all of the device has something to do
        inputs, *kernel = self._weight.shape[1:]
        rows: Tensor = found[:, : self._weight[0].numel()].unflatten(1, (*kernel, inputs))
        return rows.movedim(-1, 1)


def _flat(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1).reshape(-1)


def _last(images: Tensor) -> Tensor:
    return images.detach().contiguous(memory_format=torch.channels_last)


def _narrow(layer: Convolution) -> bool:
    return not layer.has_data and layer.node._saved_weight[0].numel() <= NARROW


def suits(layers: Sequence[Layer]) -> bool:
    """Whether layers, from the top down, can go as one."""
    return follows_a_convolution(layers) and layers[-1].node._saved_input.is_cuda
