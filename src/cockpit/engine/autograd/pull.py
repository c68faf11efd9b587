"""Carry a per-sample gradient of a rearranged parameter back to the parameter itself."""

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.graph import Link, Path, family, operand_shape, run_backward, shapes
from cockpit.layers import Dense, Factored, Form
from cockpit.layers._rule import Use, rule_for
from cockpit.layers.layout import Layout

Grads = tuple[Tensor | None, ...]
Layouts = tuple[Layout | None, ...]
COMPILED = "used inside a compiled function that does not run eagerly"
DENSE_LIMIT = 2**28  # elements of a per-sample gradient that may be held at once
RESHAPES = frozenset(f"{n}Backward" for n in ("View", "UnsafeView", "ReshapeAlias", "Unsqueeze", "Squeeze", "Flatten"))
KEEPS = frozenset(f"{n}Backward" for n in ("ToCopy", "Clone", "Alias", "Contiguous"))
SWAPS = frozenset(f"{n}Backward" for n in ("T", "Transpose", "Permute"))


def gradient_of(path: Path, grads: Grads, layouts: Layouts) -> Form:
    """Per-sample gradient of the parameter at the end of a path, while its operation is about to run backwards."""
    form = of_operand(path.node, path.slot, grads, layouts)
    for link in path.chain:
        form = through(form, link)
    return form


def of_operand(node: Any, slot: int, grads: Grads, layouts: Layouts) -> Form:
    """Per-sample gradient of an operand, while the backward of its operation is about to run.

    By the operation's rule, or where there is none by calling its own backward with the gradient of one sample at a
    time: autograd's rule for the operation is always right.
    """
    form: Form | None = None
    shape = operand_shape(node, slot)
    rule = rule_for(node.name())
    if rule is not None and layouts[0] is not None and grads[0] is not None:
        form = rule(Use(node, slot, shape, grads, layouts[0]))
    return _generic(node, slot, shape, grads, layouts) if form is None else form


def _generic(node: Any, slot: int, shape: tuple[int, ...], grads: Grads, layouts: Layouts) -> Form:
    samples, pairs = next(at.samples for at in layouts if at is not None), list(zip(grads, layouts, strict=True))
    _check_size(samples, shape)
    if any(grad is not None and at is None for grad, at in pairs):
        raise Undefined(f"{node.name()} mixes results with and without samples")
    each = ([None if g is None or at is None else at.mask(g, n) for g, at in pairs] for n in range(samples))
    return _one_by_one(node, slot, shape, each)


def _one_by_one(node: Any, slot: int, shape: tuple[int, ...], given: Iterable[list[Tensor | None]]) -> Form:
    """Run the node's own backward for each sample."""
    return Dense(torch.stack([_call(node, grads, slot, shape) for grads in given]))


def _call(node: Any, grads: list[Tensor | None], slot: int, shape: tuple[int, ...]) -> Tensor:
    if family(node) == "CompiledFunctionBackward":
        raise Undefined(COMPILED)
    grad = run_backward(node, grads)[slot]
    if grad is None:
        return next(g for g in grads if g is not None).new_zeros(shape)
    if grad.is_sparse:
        raise Undefined("sparse gradients are not supported: use a dense layer (sparse=False)")
    found: Tensor = grad.sum_to_size(shape) if tuple(grad.shape) != shape else grad
    return found


def through(form: Form, link: Link) -> Form:
    """From the per-sample gradient of a result that is computed from parameters alone to that of an operand."""
    name, shape = family(link.node), operand_shape(link.node, link.slot)
    if name in KEEPS:
        return form
    if name in RESHAPES:
        return _reshaped(form, shape)
    if name in SWAPS and isinstance(form, Factored) and len(shape) == 2 and form.row.shape[1] == 1:
        swapped = name == "TBackward" or shape != form.shape or _swaps(link.node)
        if form.shape == (form.row.shape[3], form.col.shape[3]):
            return Factored(shape, form.col, form.row, form.factor) if swapped else form
    if name.startswith("Split") and isinstance(form, Factored) and link.node._saved_dim == 0 and form.row.shape[1] == 1:
        return _padded_rows(form, link, shape)
    if name == "EmbeddingBackward" and isinstance(form, Dense):
        return _looked_up(form, link, shape)
    return _called(form, link, shape)


def _looked_up(form: Dense, link: Link, shape: tuple[int, ...]) -> Form:
    """Rows looked up outside the batch (learned positions): each sample's gradient goes back to the rows."""
    _check_size(form.samples, shape)
    node = link.node
    padded = 0 <= node._saved_padding_idx < shape[0]
    if padded or node._saved_sparse or node._saved_scale_grad_by_freq:
        return _called(form, link, shape)
    indices, value = node._saved_indices.reshape(-1), form.value
    rows = value.new_zeros(form.samples, *shape)
    return Dense(rows.index_add_(1, indices, value.reshape(form.samples, len(indices), -1)))


def _swaps(node: Any) -> bool:
    if family(node) == "TransposeBackward":
        return bool(node._saved_dim0 != node._saved_dim1)
    return tuple(node._saved_dims) != (0, 1)


def _reshaped(form: Form, shape: tuple[int, ...]) -> Form:
    if isinstance(form, Factored):
        return replace(form, shape=shape)
    if not isinstance(form, Dense):
        _check_size(form.samples, shape)
    return Dense(form.form(0, form.samples).reshape(form.samples, *shape))


def _padded_rows(form: Factored, link: Link, shape: tuple[int, ...]) -> Form:
    """A block of rows of the parameter (query, key, value stacked in one matrix): zero rows around it."""
    sizes = [s[0] for s in shapes(link.node)]
    before = sum(sizes[: link.output])
    after = shape[0] - before - sizes[link.output]
    return replace(form, shape=shape, row=torch.nn.functional.pad(form.row, (before, after)))


def _called(form: Form, link: Link, shape: tuple[int, ...]) -> Form:
    """Any other operation on parameters alone (weight norm, a learned position looked up): its own backward."""
    _check_size(form.samples, shape)
    outputs, node = range(len(link.node._input_metadata)), link.node
    each = (form.form(n, n + 1)[0] for n in range(form.samples))
    return _one_by_one(node, link.slot, shape, ([g if out == link.output else None for out in outputs] for g in each))


def _check_size(samples: int, shape: tuple[int, ...]) -> None:
    if samples * prod(shape) > DENSE_LIMIT:
        raise Undefined(f"individual gradients of shape {shape} would hold {samples} x {prod(shape)} numbers at once")
