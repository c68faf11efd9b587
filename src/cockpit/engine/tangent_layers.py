"""The operations through which velocities are pushed and gradients pulled (see ``tangents.py``)."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cockpit.engine.autograd.graph import Node, Path, family, shapes
from cockpit.engine.autograd.pull import KEEPS, RESHAPES
from cockpit.engine.branches import Later, beside
from cockpit.engine.sending import ALL, Part
from cockpit.engine.squares import TURNS, along, turned_axes

Tangents = dict[int, Tensor]  # of a layer's own operands
APART = {"cuda"}  # where linear layers begin products with their weights' velocity before their data have moved


@dataclass(slots=True)
class Layer:
    """One operation: the velocity of its result, and what its backward gives."""

    node: Node
    weights: dict[int, Path] = field(default_factory=dict)  # operands that are parameters, by place
    has_data: bool = False  # whether its data move with the parameters
    slope: Tensor | None = None  # gradient at its result, where a product needs it
    moved: Tensor | None = None  # velocity of its data
    part: Part = ALL  # entries of the first axis that it is given (see ``tangent_pieces.py``)
    pushed: Later[Tensor | None] | None = None  # on a GPU, its data with the weights' velocity: the result's
    pulled: Later[Tensor] | None = None  # and the gradient, sent back with that velocity

    def operand(self, slot: int, vector: Tensor) -> Tensor:
        """A parameter's velocity as that of the operand, which is the parameter rearranged."""
        for link in reversed(self.weights[slot].chain):
            if family(link.node) in TURNS:
                vector = vector.transpose(*turned_axes(link.node))
            else:
                vector = vector.reshape(shapes(link.node)[link.output])
        return vector

    def own(self, slot: int, grad: Tensor) -> Tensor:
        """An operand's gradient as that of the parameter."""
        return along(self.weights[slot], grad)

    def begin(self, slope: Tensor) -> Tensor:
        """Take the gradient at the result, return that of the data."""
        self.slope = slope if self.weights else None
        return self.pull(slope)

    def ahead(self, own: Tangents) -> None:
        """Begin what the push waits for, and no other layer."""

    def behind(self, own: Tangents) -> None:
        """The same for the way back; it has time while the layers above are small."""

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """Velocity of the result."""
        raise NotImplementedError

    def pull(self, grad: Tensor) -> Tensor:
        """Gradient of the data."""
        raise NotImplementedError

    def backward(self, grad: Tensor) -> tuple[Tensor | None, Tangents]:
        """Gradients of the data and of the weights."""
        return (self.pull(grad) if self.has_data else None), {}

    def product_rule(self, grad: Tensor, own: Tangents) -> tuple[Tensor | None, Tangents]:
        """Velocities of the gradients of the data and of the weights; ``grad``: that of the gradient at the result."""
        return self.backward(grad)


class Linear(Layer):
    """``bias + data @ weight``, or without bias."""

    def _saved(self) -> tuple[Tensor | None, Tensor | None, int]:
        node = self.node
        addmm = family(node) == "AddmmBackward"
        return (node._saved_mat1 if addmm else node._saved_self), node._saved_mat2, 1 if addmm else 0

    def ahead(self, own: Tangents) -> None:
        """The data, with the weights' velocity; elsewhere that is quicker when added to what it belongs to."""
        inputs, _, slot = self._saved()
        weight, bias = own.get(slot + 1), own.get(0) if slot == 1 else None
        if weight is not None and inputs is not None and weight.device.type in APART:
            self.pushed = beside(lambda: inputs @ weight if bias is None else (inputs @ weight).add_(bias))

    def behind(self, own: Tangents) -> None:
        """The gradient, with the weights' velocity."""
        weight = own.get(self._saved()[2] + 1)
        if weight is not None and self.slope is not None and weight.device.type in APART:
            self.pulled = beside(partial(torch.matmul, self.slope, weight.mT))

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """One term for each factor."""
        inputs, weight, slot = self._saved()
        if self.pushed is not None:
            found, self.pushed = self.pushed.now(), None
            return found if data is None or weight is None or found is None else found.addmm_(data, weight)
        found = None if data is None or weight is None else data @ weight
        if slot + 1 in own and inputs is not None:
            found = inputs @ own[slot + 1] if found is None else found.addmm_(inputs, own[slot + 1])
        if slot == 1 and 0 in own:
            found = own[0].expand(shapes(self.node)[0]) if found is None else found.add_(own[0])
        return found

    def pull(self, grad: Tensor) -> Tensor:
        """Through the weight."""
        weight = self.node._saved_mat2
        found: Tensor = grad @ weight.mT
        return found

    def backward(self, grad: Tensor) -> tuple[Tensor | None, Tangents]:
        """One product for each."""
        return (self.pull(grad) if self.has_data else None), self._of_operands(grad)

    def product_rule(self, grad: Tensor, own: Tangents) -> tuple[Tensor | None, Tangents]:
        """The backward of the layer, and the other half."""
        weight = self._saved()[2] + 1
        found = beside(partial(self._of_operands, grad, self.moved if weight in own else None), (grad, self.moved))
        if not self.has_data:
            return None, found.value
        if self.pulled is not None and own:
            data, self.pulled = self.pulled.now(), None
            return data.addmm_(grad, self.node._saved_mat2.mT), found.value
        data = self.pull(grad)
        if self.slope is not None and weight in own:
            data.addmm_(self.slope, own[weight].mT)
        return data, found.value

    def _of_operands(self, grad: Tensor, velocity: Tensor | None = None) -> Tangents:
        inputs, _, slot = self._saved()
        found: Tangents = {}
        if slot + 1 in self.weights and inputs is not None:
            found[slot + 1] = (grad.mT @ inputs).mT  # so it lies in memory as the weight of a linear layer does
            if velocity is not None and self.slope is not None:
                found[slot + 1].addmm_(velocity.mT, self.slope)
        if slot == 1 and 0 in self.weights:
            found[0] = grad.sum(0)
        return found


class Convolution(Layer):
    """Data, weight and bias in this order."""

    def _inputs(self) -> Tensor:
        return self.part.of(self.node._saved_input)

    def settings(self) -> tuple[Any, ...]:
        """As torch's operations take them."""
        node = self.node
        spatial = node._saved_stride, node._saved_padding, node._saved_dilation
        return (*spatial, node._saved_transposed, node._saved_output_padding, node._saved_groups)

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """One convolution for each factor."""
        settings, found = self.settings(), None
        if data is not None:
            found = torch.ops.aten.convolution(data, self.node._saved_weight, own.get(2), *settings)
        if 1 in own:
            bias = own.get(2) if found is None else None
            part = torch.ops.aten.convolution(self._inputs(), own[1], bias, *settings)
            found = part if found is None else found.add_(part)
        if found is None and 2 in own:
            shape = self.part.sized(shapes(self.node)[0])
            found = own[2].view(-1, *[1] * (len(shape) - 2)).expand(shape)
        return found

    def pull(self, grad: Tensor) -> Tensor:
        """Through the weight."""
        found = self.backward_of(grad, self._inputs(), self.node._saved_weight, (True, False, False))[0]
        assert found is not None
        return found

    def backward(self, grad: Tensor) -> tuple[Tensor | None, Tangents]:
        """All in one call."""
        wanted = self.has_data, 1 in self.weights, 2 in self.weights
        data, weight, bias = self.backward_of(grad, self._inputs(), self.node._saved_weight, wanted)
        return data, {slot: part for slot, part in ((1, weight), (2, bias)) if part is not None}

    def product_rule(self, grad: Tensor, own: Tangents) -> tuple[Tensor | None, Tangents]:
        """The backward of the layer, twice."""
        data, found = self.backward(grad)
        if self.slope is not None and 1 in own:
            moved = self._inputs() if self.moved is None else self.part.of(self.moved)
            wanted = self.has_data, self.moved is not None, False
            more = self.backward_of(self.part.of(self.slope), moved, own[1], wanted)
            if data is not None and more[0] is not None:
                data.add_(more[0])
            if more[1] is not None:
                found[1].add_(more[1])
        return data, found

    def backward_of(
        self, grad: Tensor, data: Tensor, weight: Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Gradients of data, weight and bias, those that are wanted."""
        sizes = [grad.shape[1]] if wanted[2] else None
        found: tuple[Tensor | None, Tensor | None, Tensor | None] = torch.ops.aten.convolution_backward(
            grad, data, weight, sizes, *self.settings(), list(wanted)
        )
        return found


class Relu(Layer):
    """Linear but for its kink; overwrites what it is given."""

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """Where it was positive."""
        return None if data is None else self.pull(data)

    def pull(self, grad: Tensor) -> Tensor:
        """Where it was positive."""
        out = grad if grad.is_contiguous() else torch.empty_like(grad, memory_format=torch.contiguous_format)
        result = self.part.of(self.node._saved_result)
        return torch.ops.aten.threshold_backward.grad_input(grad, result, 0, grad_input=out)  # type: ignore[no-any-return]


class MaxPool(Layer):
    """Each window takes the value at one place."""

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """From the places that were chosen."""
        index = self.part.of(self.node._saved_result1)
        return None if data is None else data.flatten(2).gather(2, index.flatten(2)).view(index.shape)

    def pull(self, grad: Tensor) -> Tensor:
        """To the places that were chosen."""
        node = self.node
        window = node._saved_kernel_size, node._saved_stride, node._saved_padding, node._saved_dilation
        data, index = self.part.of(node._saved_self), self.part.of(node._saved_result1)
        found: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
            grad, data, *window, node._saved_ceil_mode, index
        )
        return found


class Reshape(Layer):
    """The same numbers in the same order."""

    def push(self, data: Tensor | None, own: Tangents) -> Tensor | None:
        """In the new shape."""
        return None if data is None else data.reshape(shapes(self.node)[0])

    def pull(self, grad: Tensor) -> Tensor:
        """In the old shape."""
        below, output = self.node.next_functions[0]
        return grad.reshape(shapes(below)[output])


LAYERS: dict[str, type[Layer]] = {
    "AddmmBackward": Linear,
    "MmBackward": Linear,
    "ConvolutionBackward": Convolution,
    "ReluBackward": Relu,
    "MaxPool2DWithIndicesBackward": MaxPool,
    **dict.fromkeys(RESHAPES | KEEPS, Reshape),
}
DATA = {"AddmmBackward": 1}  # which operand; the first of all others
