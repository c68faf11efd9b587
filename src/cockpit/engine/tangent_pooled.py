"""A convolution, ReLUs and max-pooling as one layer on a GPU, with the channels last.

Convolutions there are quick with all their zeros, as long as channels lie side by side; what takes the time are passes
over results of a convolution's size. Here nothing but the convolutions themselves is of that size: ReLUs and the bias
meet what max-pooling picked, of which there is a quarter or less.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from cockpit.engine.branches import beside
from cockpit.engine.conv_squares import Convolution as Unfolded
from cockpit.engine.graph import shapes
from cockpit.engine.tangent_layers import Convolution, Layer, Tangents, with_begun
from cockpit.engine.tangent_picked import BIAS, WEIGHT, chosen, follows_a_convolution
from cockpit.layers.forms import Scratch, as_convolutions

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
        places = chosen(layers[:-1])
        samples, channels = places.index.shape[:2]
        device, positions = places.index.device, self._result[2] * self._result[3]
        first = torch.arange(0, samples * positions, positions, device=device, dtype=torch.int64)[:, None, None]
        channel = torch.arange(channels, device=device, dtype=torch.int64)
        self._places = (first + places.index.movedim(1, 2)).mul_(channels).add_(channel).flatten()  # [N, S, O]
        kept = None if places.kept is None else places.kept.movedim(1, 2)
        self._kept = None if kept is None else kept.to(below.node._saved_weight.dtype).flatten()

    def begin(self, slope: Tensor) -> Tensor:
        """The gradient at the convolution's result is kept."""
        grad = self._spread(self._values(slope))
        self.slope = grad if self.weights else None
        return self._conv.data(grad)

    def ahead(self, own: Tangents) -> None:
        """Products with the weights' velocity."""
        weight = own.get(WEIGHT)
        if weight is not None:
            self.pushed = beside(partial(self._conv.push, None, weight))
            self.pulled = None if self.slope is None else beside(partial(self._conv.data, self.slope, weight))

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """Results of the data with the weights' velocity, and the other way round; then those that were picked."""
        moved = self._conv.push(data, None)
        if self.pushed is not None:
            moved, self.pushed = with_begun(moved, self.pushed), None
        if moved is None and BIAS not in own:
            return None
        channels = self._size[1]
        if moved is None:
            values = own[BIAS].repeat(len(self._places) // channels)
        else:
            values = moved.permute(0, 2, 3, 1).reshape(-1).gather(0, self._places)
            if BIAS in own:
                values.view(-1, channels).add_(own[BIAS])
        return self._images(values if self._kept is None else values.mul_(self._kept), self._size)

    def pull(self, grad: Tensor) -> Tensor:
        """Through the weight."""
        return self._conv.data(self._spread(self._values(grad)))

    def backward(self, grad: Tensor) -> tuple[Tensor | None, Tangents]:
        """Of the weight and of the data."""
        return self.product_rule(grad, {})

    def product_rule(self, grad: Tensor, own: Tangents) -> tuple[Tensor | None, Tangents]:
        """The backward of the layer, and the other half."""
        values, found = self._values(grad), Tangents()
        whole = self._spread(values)
        if WEIGHT in self.weights:
            velocity = self.moved if WEIGHT in own else None
            found[WEIGHT] = beside(partial(self._of_weight, whole, velocity), (whole, velocity)).value
        if BIAS in self.weights:
            rows = values.view(-1, self._size[1])
            # quicker than a sum over the first axis
            found[BIAS] = beside(lambda: rows.mT @ rows.new_ones(len(rows)), rows).value
        if not self.has_data:
            return None, found
        data: Tensor | None = self._conv.data(whole)
        if self.pulled is not None and own:
            data, self.pulled = with_begun(data, self.pulled), None
        return data, found

    def _of_weight(self, grad: Tensor, velocity: Tensor | None) -> Tensor:
        found = self._conv.weight(grad)
        if velocity is not None and self.slope is not None:
            found += self._conv.weight(self.slope, velocity)
        return found

    def _values(self, grad: Tensor) -> Tensor:
        """Gradients at what was picked, without those that a ReLU stops."""
        values = grad.permute(0, 2, 3, 1).reshape(-1)
        return values if self._kept is None else values * self._kept

    def _spread(self, values: Tensor) -> Tensor:
        """To the places that were picked; windows overlap, so that one may be picked twice."""
        samples, channels, *positions = self._result
        whole = values.new_zeros(samples * channels * positions[0] * positions[1])
        return self._images(whole.scatter_add_(0, self._places, values), self._result)

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
        node, shape = layer.node, shapes(layer.node)[0]
        self._patches = Unfolded.of(node).patches(0, shape[0], Scratch()).flatten(0, 1)  # [N * T, I]

    def push(self, data: Tensor | None, weight: Tensor | None) -> Tensor | None:
        if data is not None or weight is None:
            return super().push(data, weight)
        rows = weight.movedim(1, -1).flatten(1)  # channels last
        with as_convolutions(rows):
            found = self._patches @ rows.mT
        samples, channels, height, width = shapes(self._layer.node)[0]
        return found.view(samples, height, width, channels).permute(0, 3, 1, 2)

    def weight(self, grad: Tensor, data: Tensor | None = None) -> Tensor:
        if data is not None:
            return super().weight(grad, data)
        columns = grad.permute(0, 2, 3, 1).reshape(-1, grad.shape[1])
        with as_convolutions(columns):
            found = columns.mT @ self._patches
        outputs, inputs, *kernel = self._weight.shape
        return found.view(outputs, *kernel, inputs).movedim(-1, 1)


def _last(images: Tensor) -> Tensor:
    return images.detach().contiguous(memory_format=torch.channels_last)


def _narrow(layer: Convolution) -> bool:
    return not layer.has_data and layer.node._saved_weight[0].numel() <= NARROW


def suits(layers: Sequence[Layer]) -> bool:
    """Whether layers, from the top down, can go as one."""
    return follows_a_convolution(layers) and layers[-1].node._saved_input.is_cuda
