"""The search for the largest eigenvalue, confined to what a batch can move.

The gradient of a linear layer's weight is a^T d, with data a, [N, in], and slopes d, [N, out]; however both move, it
moves by a^T d' + a'^T d. Directions orthogonal to all of these move nothing, the Hessian is zero there. With fewer
samples than rows and columns few directions are left, and they have coordinates: with orthonormal rows q and p that
span those of a and of d, v = q^T b + c p with q c = 0 is as long as (b, c). In coordinates nothing but the weight
itself is of its size.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from cockpit.engine.double_backward import Product, Vectors
from cockpit.engine.lanczos import Basis, Matrix
from cockpit.engine.tangent_layers import Linear, Tangents
from cockpit.engine.tangents import TangentProduct

LARGE = 2**16  # elements of a weight
GAIN = 1.5  # times fewer multiplications, from which on it is worth finding q and p
DEVICES = {"cpu"}  # where multiplying is what takes time


def basis(product: Product, start: Tensor) -> Basis:
    """To be filled by products, in coordinates where that is less work."""
    if isinstance(product, TangentProduct) and start.device.type in DEVICES:
        layers = dict(_worthwhile(product))
        if layers:
            return ConfinedBasis(Confined(product, layers), start)
    return product.basis(start)


class ConfinedBasis(Basis):
    """Vectors are coordinates; the start, and what is made of the basis in the end, are not."""

    outside = 0.0

    def __init__(self, product: "Confined", start: Tensor) -> None:
        self._confined = product
        super().__init__(product.flat, product.narrow(start))

    def offer(self, image: Tensor) -> None:
        """Take this for the image of the newest vector, but for what is no direction."""
        super().offer(self._confined.straighten(image))

    def combine(self, coefficients: Matrix) -> Tensor:
        """sum_i c_i q_i over the first vectors."""
        return self._confined.widen(super().combine(coefficients))


class Confined(TangentProduct):
    """v -> H v in coordinates of the large weights, by their names."""

    def __init__(self, whole: TangentProduct, layers: Mapping[str, "Narrow"]) -> None:
        Product.__init__(self, whole.parameters)
        by_node = {layer.node: layer for layer in layers.values()}
        self._layers, self.of_loss = layers, whole.of_loss
        self.chain = [by_node.get(layer.node, layer) for layer in whole.chain]

    def parts(self, vector: Tensor) -> Vectors:
        """The parts of a vector of coordinates that belong to the parameters."""
        sizes = [layer.size if layer else p.numel() for p, layer in self._each()]
        named = zip(self.parameters, self._each(), vector.split(sizes), strict=True)
        return {name: part if layer else part.view_as(p) for name, (p, layer), part in named}

    def narrow(self, vector: Tensor) -> Tensor:
        """Coordinates of a direction; what moves nothing is left out."""
        parts = zip(self._each(), super().parts(vector).values(), strict=True)
        return torch.cat([layer.narrow(part) if layer else part.flatten() for (_, layer), part in parts])

    def widen(self, coordinates: Tensor) -> Tensor:
        """The direction that has these coordinates."""
        parts = zip(self._each(), self.parts(coordinates).values(), strict=True)
        return torch.cat([(layer.widen(part) if layer else part).flatten() for (_, layer), part in parts])

    def straighten(self, numbers: Tensor) -> Tensor:
        """Coordinates of a direction near these numbers, of which not all are coordinates; in place."""
        for (_, layer), part in zip(self._each(), self.parts(numbers).values(), strict=True):
            if layer:
                layer.straighten(part)
        return numbers

    def _each(self) -> Iterator[tuple[Tensor, "Narrow | None"]]:
        return ((p, self._layers.get(name)) for name, p in self.parameters.items())


class Narrow(Linear):
    """A linear layer whose weight moves in coordinates: b, [r, out], and c, [in, s], in one vector."""

    def __init__(self, layer: Linear) -> None:
        super().__init__(layer.node, layer.weights, layer.has_data, layer.slope)
        inputs, _, bias = self._saved()
        assert inputs is not None
        self._weight, self._inputs = bias + 1, _Rows(inputs)
        self._slopes = None if self.slope is None else _Rows(self.slope)
        self._height, self._width = self.weights[self._weight].shape
        rows = 0 if self._slopes is None else len(self._slopes.basis)
        self.size = len(self._inputs.basis) * self._width + self._height * rows

    def operand(self, slot: int, vector: Tensor) -> Tensor:
        """The weight's is given in coordinates."""
        return vector if slot == self._weight else super().operand(slot, vector)

    def own(self, slot: int, grad: Tensor) -> Tensor:
        """The weight's is found in coordinates."""
        return grad if slot == self._weight else super().own(slot, grad)

    def narrow(self, direction: Tensor) -> Tensor:
        """Coordinates of a direction of the weight."""
        whole = super().operand(self._weight, direction)
        found = whole.new_empty(self.size)
        b, c = self._split(found)
        torch.mm(self._inputs.basis, whole, out=b)
        if self._slopes is not None:
            c.copy_(self._inputs.without(whole @ self._slopes.basis.mT))
        return found

    def widen(self, coordinates: Tensor) -> Tensor:
        """The direction of the weight that has these coordinates."""
        b, c = self._split(coordinates)
        whole = self._inputs.basis.mT @ b
        if self._slopes is not None:
            whole.addmm_(c, self._slopes.basis)
        return super().own(self._weight, whole)

    def straighten(self, numbers: Tensor) -> None:
        """So that q c = 0."""
        c = self._split(numbers)[1]
        if self._slopes is not None:
            c.copy_(self._inputs.without(c))

    def push(self, data: Tensor | None, own: Tangents) -> Tensor:
        """One term for each factor; q c = 0, so the data see b alone."""
        found: Tensor = self._inputs.sizes @ self._split(own[self._weight])[0]
        if data is not None:
            found.addmm_(data, self.node._saved_mat2)
        return found.add_(own[0]) if self._bias in own else found

    def product_rule(self, grad: Tensor, own: Tangents) -> tuple[Tensor | None, Tangents]:
        """The backward of the layer, and the other half."""
        found = {self._weight: self._of_weight(grad)}
        if self._bias in self.weights:
            found[0] = grad.sum(0)
        if not self.has_data:
            return None, found
        data = self.pull(grad)
        if self._slopes is not None:
            b, c = self._split(own[self._weight])
            onto = torch.addmm(c, self._inputs.basis.mT, b @ self._slopes.basis.mT)  # v p^T
            data.addmm_(self._slopes.sizes, onto.mT)
        return data, found

    @property
    def _bias(self) -> int:
        return 0 if self._weight == 2 else -1  # of an addition

    def _of_weight(self, grad: Tensor) -> Tensor:
        """Coordinates of a^T d' + a'^T d."""
        found = grad.new_empty(self.size)
        b, c = self._split(found)
        torch.mm(self._inputs.sizes.mT, grad, out=b)
        if self._slopes is None or self.moved is None or self.slope is None:
            c.zero_()
            return found
        along = self.moved @ self._inputs.basis.mT
        b.addmm_(along.mT, self.slope)
        torch.mm(torch.addmm(self.moved, along, self._inputs.basis, alpha=-1).mT, self._slopes.sizes, out=c)
        return found

    def _split(self, coordinates: Tensor) -> tuple[Tensor, Tensor]:
        b = len(self._inputs.basis) * self._width
        return coordinates[:b].view(-1, self._width), coordinates[b:].view(self._height, -1)


class _Rows:
    """[N, k] as sizes @ basis; the rows of the basis are orthonormal, and N of them, or k if that is fewer."""

    def __init__(self, rows: Tensor) -> None:
        columns, sizes = torch.linalg.qr(rows.detach().mT)
        self.basis, self.sizes = columns.mT.contiguous(), sizes.mT.contiguous()

    def without(self, columns: Tensor) -> Tensor:
        """What of columns, [k, m], is orthogonal to all rows."""
        return torch.addmm(columns, self.basis.mT, self.basis @ columns, alpha=-1)


def _worthwhile(product: TangentProduct) -> Iterator[tuple[str, Narrow]]:
    """Linear layers of which coordinates take fewer multiplications, by the names of their weights."""
    times = Counter(path.name for layer in product.chain for path in layer.weights.values())
    for layer in product.chain:
        if type(layer) is not Linear:
            continue
        inputs, _, bias = layer._saved()
        path = layer.weights.get(bias + 1)
        if path is None or inputs is None or times[path.name] > 1:
            continue
        height, width = path.shape
        samples = len(inputs)
        whole, coordinates = 2 * height * width, 2 * samples * width
        if layer.slope is not None:
            whole, coordinates = 2 * whole, samples * (4 * width + 5 * height)
        if height * width >= LARGE and whole >= GAIN * coordinates:
            yield path.name, Narrow(layer)
