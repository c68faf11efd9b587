"""Everything that multiplies by the Hessian or the generalised Gauss-Newton matrix, on the user's own graph."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import statistics
from cockpit.engine.graph import Path, edge
from cockpit.engine.placement import Placements, Source
from cockpit.engine.pull import gradient_of
from cockpit.layers import AnyForm, Factored, Form, combine
from cockpit.layers.forms import scale, wide

MAX_COLUMNS = 1024  # outputs per sample for which the exact GGN is formed
MAX_COUPLED = 4096  # samples x outputs, where each needs a pass of its own
MAX_HESSIAN = 20_000  # parameters for which the exact Hessian diagonal is formed

Vectors = dict[str, Tensor]


class HessianProduct:
    """v -> H v for the backpropagated number, by differentiating its gradient once more."""

    def __init__(
        self, roots: Sequence[Tensor], seeds: Sequence[Tensor | None], parameters: Mapping[str, Tensor]
    ) -> None:
        self.parameters = dict(parameters)
        self.products = 0
        with torch.enable_grad():
            try:
                grads = torch.autograd.grad(
                    list(roots), list(self.parameters.values()), list(seeds), create_graph=True, allow_unused=True
                )
            except RuntimeError as error:
                raise Undefined(f"the network cannot be differentiated twice: {_first_line(error)}") from error
        self._grads = [grad for grad in grads if grad is not None and grad.requires_grad]
        self._places = [place for place, grad in enumerate(grads) if grad is not None and grad.requires_grad]

    def __call__(self, vectors: Vectors) -> Vectors:
        """Return H v."""
        self.products += 1
        if not self._grads:
            return {name: torch.zeros_like(v) for name, v in vectors.items()}
        directions = list(vectors.values())
        try:
            products = torch.autograd.grad(
                self._grads,
                list(self.parameters.values()),
                [directions[place] for place in self._places],
                retain_graph=True,
                allow_unused=True,
            )
        except RuntimeError as error:
            raise Undefined(f"the network cannot be differentiated twice: {_first_line(error)}") from error
        named = zip(self.parameters, products, strict=True)
        return {name: torch.zeros_like(vectors[name]) if hv is None else hv for name, hv in named}


def hessian_diagonal(product: HessianProduct) -> Vectors:
    """Exact diagonal, one product for each parameter element: for small nets and tests."""
    total = sum(p.numel() for p in product.parameters.values())
    if total > MAX_HESSIAN:
        raise Undefined(f"the exact Hessian diagonal of {total} parameters is too dear; use curvature='hutchinson'")
    diagonal = {name: torch.zeros_like(p) for name, p in product.parameters.items()}
    basis = {name: torch.zeros_like(p) for name, p in product.parameters.items()}
    for name, vector in basis.items():
        flat, found = vector.view(-1), diagonal[name].view(-1)
        for place in range(flat.numel()):
            flat[place] = 1
            found[place] = product(basis)[name].reshape(-1)[place]
            flat[place] = 0
    return diagonal


def hutchinson(product: HessianProduct, probes: int, generator: torch.Generator) -> list[Vectors]:
    """v * H v for random signs v: each is an unbiased estimate of the diagonal."""
    estimates = []
    for _ in range(probes):
        signs = {name: _signs(p.shape, p, generator) for name, p in product.parameters.items()}
        products = product(signs)
        estimates.append({name: signs[name] * products[name] for name in signs})
    return estimates


class GaussNewton:
    """The loss Hessian at the network's output, factored, and its columns sent back through the network."""

    def __init__(
        self,
        roots: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        outputs: Sequence[Source],
        paths: Sequence[Path],
        placed: Placements,
        parameters: Mapping[str, Tensor],
    ) -> None:
        self.outputs, self.paths, self.placed, self.parameters = outputs, paths, placed, parameters
        self._roots, self._seeds = list(roots), list(seeds)
        self._places: list[Any] = [edge(output.node, output.output) for output in outputs]
        self._factors: tuple[Tensor, Tensor] | None = None
        self._results = list(dict.fromkeys((path.node, out) for path in paths for out in _outputs(path, placed)))

    def diagonal(self) -> Vectors:
        """Exact diagonal: the squares of all columns, summed."""
        columns, signs = self._factor()  # [N, C, C] and [N, C]
        if self.placed.coupled:
            return self._coupled_diagonal(columns, signs)
        total = Squares(self.parameters)
        for c in range(columns.shape[2]):
            for sign in (1, -1):  # a loss that is not convex in the outputs has negative columns
                chosen = signs[:, c] == sign
                if bool(chosen.any()):
                    self._add_squares(total, columns[:, :, c] * chosen[:, None], sign)
        return total.sums()

    def sampled(self, samples: int, generator: torch.Generator) -> list[Vectors]:
        """Monte Carlo estimates of the diagonal: columns mixed with random signs."""
        if self.placed.coupled:
            raise Undefined("batch normalisation in training mode couples the samples; use curvature='hutchinson'")
        columns, signs = self._factor()
        if bool((signs < 0).any()):
            raise Undefined("the loss is not convex in the network's output; use curvature='ggn' or 'hutchinson'")
        estimates = []
        for _ in range(samples):
            mix = _signs((columns.shape[0], columns.shape[2]), columns, generator)
            total = Squares(self.parameters)
            self._add_squares(total, torch.einsum("nkc,nc->nk", columns, mix))
            estimates.append(total.sums())
        return estimates

    def _factor(self) -> tuple[Tensor, Tensor]:
        if self._factors is None:
            blocks = self._blocks()
            values, vectors = torch.linalg.eigh(blocks)
            largest = values.abs().amax(1, keepdim=True)
            kept = values.abs() > 1e-13 * largest
            signs = torch.sign(values) * kept
            self._factors = vectors * values.abs().sqrt()[:, None, :], signs
        return self._factors

    def _blocks(self) -> Tensor:
        """Loss Hessian with respect to each sample's outputs: [N, C, C] in double precision."""
        samples = self.outputs[0].layout.samples
        size = sum(prod(output.shape) for output in self.outputs) // samples
        if size > MAX_COLUMNS:
            raise Undefined(
                f"{size} outputs per sample: the exact GGN needs as many passes (limit {MAX_COLUMNS}); "
                "use curvature='hutchinson'"
            )
        with torch.enable_grad():
            gradients = torch.autograd.grad(self._roots, self._places, self._seeds, create_graph=True)
        curved = [k for k, gradient in enumerate(gradients) if gradient.grad_fn is not None]
        device = gradients[0].device

        def product(vector: Tensor) -> Tensor:  # [N, C] -> [N, C]
            if not curved:  # a loss that is linear in the outputs
                return torch.zeros_like(vector)
            parts = self._split(vector)
            hv = torch.autograd.grad(
                [gradients[k] for k in curved],
                self._places,
                [parts[k].to(gradients[k].dtype) for k in curved],
                retain_graph=True,
                allow_unused=True,
            )
            return self._join(hv).to(vector)

        unit = torch.zeros(samples, size, dtype=torch.float64, device=device)
        columns = []
        for c in range(size):
            unit[:, c] = 1
            columns.append(product(unit))
            unit[:, c] = 0
        blocks = torch.stack(columns, dim=2)
        if not bool(torch.isfinite(blocks).all()):
            raise Undefined("the curvature of the loss is not finite")
        self._check_separable(blocks, product, 0.2 if gradients[0].dtype.itemsize == 2 else 1e-3)
        return (blocks + blocks.mT) / 2

    def _split(self, rows: Tensor) -> list[Tensor]:
        """[N, C] -> one tensor for each output, in its own shape."""
        sizes = [prod(output.shape) // output.layout.samples for output in self.outputs]
        parts = zip(rows.split(sizes, dim=1), self.outputs, strict=True)
        return [_unflatten(part, output.layout.inner, output.shape) for part, output in parts]

    def _join(self, tensors: Sequence[Tensor | None]) -> Tensor:
        """Undo :meth:`_split`."""
        rows = []
        for tensor, output in zip(tensors, self.outputs, strict=True):
            filled = torch.zeros(output.shape, device=output.device) if tensor is None else tensor
            rows.append(_flatten(filled.double(), output.layout.inner, output.layout.samples))
        return torch.cat(rows, dim=1)

    @staticmethod
    def _check_separable(blocks: Tensor, product: Callable[[Tensor], Tensor], tolerance: float) -> None:
        """A loss that compares samples with each other has no block per sample."""
        generator = torch.Generator().manual_seed(0)
        probe = torch.randn(blocks.shape[:2], generator=generator, dtype=torch.float64).to(blocks.device)
        expected = torch.einsum("nkc,nc->nk", blocks, probe)
        actual = product(probe).double()
        if float((expected - actual).norm()) > tolerance * float(expected.norm()) + 1e-30:
            raise Undefined("the loss couples the samples; use curvature='hessian' or 'hutchinson'")

    def _add_squares(self, total: "Squares", seed: Tensor, sign: int = 1) -> None:
        for name, form in self._columns(seed):
            total.add(name, scale(form, 1.0), sign)

    def _columns(self, seed: Tensor) -> Iterator[tuple[str, AnyForm]]:
        """Send one column per sample back and read the per-sample gradients it makes."""
        arrived = dict(zip(self._results, self._send(seed, [edge(*result) for result in self._results]), strict=True))
        forms: dict[str, list[Form]] = {}
        with torch.no_grad():
            for path in self.paths:
                layouts = self.placed.nodes[path.node]
                local = tuple(arrived.get((path.node, out)) for out in range(len(layouts)))
                if any(grad is not None for grad in local):
                    forms.setdefault(path.name, []).append(gradient_of(path, local, layouts))
        for name, parts in forms.items():
            yield name, combine(parts)

    def _send(self, seed: Tensor, inputs: Sequence[Any]) -> Sequence[Tensor | None]:
        """Backpropagate ``seed`` [N, C] from the network's outputs."""
        grads = [part.to(output.dtype) for part, output in zip(self._split(seed), self.outputs, strict=True)]
        return torch.autograd.grad(self._places, inputs, grads, retain_graph=True, allow_unused=True)

    def _coupled_diagonal(self, columns: Tensor, signs: Tensor) -> Vectors:
        """Samples see each other (batch normalisation): each sample's columns are sent back on their own."""
        samples, size = columns.shape[0], columns.shape[2]
        if samples * size > MAX_COUPLED:
            raise Undefined(
                f"batch normalisation in training mode couples the samples: the exact GGN needs {samples} x {size} "
                f"passes (limit {MAX_COUPLED}); use curvature='hutchinson'"
            )
        total = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        seed = torch.zeros(samples, size, dtype=columns.dtype, device=columns.device)
        for n in range(samples):
            for c in range(size):
                if float(signs[n, c]) == 0:
                    continue
                seed[n] = columns[n, :, c]
                grads = self._send(seed, list(self.parameters.values()))
                for name, grad in zip(self.parameters, grads, strict=True):
                    if grad is not None:
                        total[name] += float(signs[n, c]) * grad.square()
                seed[n] = 0
        return total


class Squares:
    """Sums squared per-sample gradients over columns.

    For a linear layer all columns have the same inputs: sum_c (row_c col^T)^2 = (sum_c row_c^2) (col^2)^T, one product.
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = parameters
        self._sums: Vectors = {}
        self._outer: dict[str, tuple[Tensor, Factored]] = {}

    def add(self, name: str, form: AnyForm, sign: int) -> None:
        """Add one column of one parameter."""
        if isinstance(form, Factored) and form.row.shape[1:3] == (1, 1):
            squares, first = self._outer.get(name, (torch.zeros_like(form.row), form))
            if first.col.data_ptr() == form.col.data_ptr() and first.col.shape == form.col.shape:
                self._outer[name] = squares + sign * form.row.square(), first
                return
        self._add(name, form, sign)

    def _add(self, name: str, form: AnyForm, sign: int) -> None:
        found = statistics.compute(form, self._parameters[name], statistics.Wanted(sum_sq=True), {}).sum_sq
        assert found is not None
        self._sums[name] = self._sums.get(name, 0) + sign * found

    def sums(self) -> Vectors:
        """The sum over all columns, for each parameter."""
        for name, (squares, form) in self._outer.items():
            outer = squares[:, 0, 0].mT @ form.col[:, 0, 0].square()
            self._sums[name] = self._sums.get(name, 0) + outer.reshape(form.shape)
        self._outer.clear()
        return self._sums


def _outputs(path: Path, placed: Placements) -> range:
    return range(len(placed.nodes[path.node]))


def _flatten(tensor: Tensor, inner: int, samples: int) -> Tensor:
    """Samples first: [N, C]."""
    return tensor.reshape(-1, samples, inner).transpose(0, 1).reshape(samples, -1)


def _unflatten(rows: Tensor, inner: int, shape: tuple[int, ...]) -> Tensor:
    """Undo :func:`_flatten`."""
    samples = rows.shape[0]
    return rows.reshape(samples, -1, inner).transpose(0, 1).reshape(shape)


def _signs(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    bits = torch.randint(0, 2, tuple(shape), generator=generator, device=generator.device)
    return (2 * bits - 1).to(like.device, wide(like).dtype)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
