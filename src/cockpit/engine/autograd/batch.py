"""What a forward call of the model showed: how many samples, which results, individual losses.

It is noted on the autograd nodes of the results, not kept here: it lives as long as the graph does, and calls that lead
to no backward pass (an evaluation without ``no_grad``) leave nothing behind.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.graph import Graph, Node
from cockpit.engine.autograd.loss_calls import LossCall

REMEDY = "use pit.loss or watch(..., batch_size=), or say batch_axis="


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward call: noted on the nodes of its results."""

    call: object  # the same for all results of one call
    size: int | str | None  # number of samples as told by the user's callable or read off the inputs; a reason
    losses: Tensor | str | None  # individual losses of a model that returns its own, detached
    outputs: tuple[int, ...]  # of the node


def note(
    key: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    output: Any,
    axis: int,
    batch_size: int | Callable[..., int] | None,
    losses: Callable[..., Tensor] | None,
) -> list[int]:
    """Note a forward call on the nodes of its results; returns their numbers, by which :func:`noted` finds them."""
    by_node: dict[Node, list[int]] = {}
    for tensor in tensors_in(output):
        if tensor.grad_fn is not None:
            by_node.setdefault(tensor.grad_fn, []).append(tensor.output_nr)
    if not by_node:
        return []
    inputs = tuple(tensors_in([args, kwargs]))
    size = _told(batch_size, args, kwargs) if callable(batch_size) else _size(inputs, output, axis)
    individual, call = _individual_losses(losses, args, kwargs, output), object()
    for node, outputs in by_node.items():
        node.metadata[key] = Forward(call, size, individual, tuple(outputs))
    return [node._sequence_nr() for node in by_node]


def noted(key: str, graph: Graph, numbers: set[int]) -> list[tuple[Node, Any]]:
    """Everything noted under ``key`` on the nodes of a graph that have these numbers: to ask a node for its notes
    takes long.
    """
    asked = [node for node in graph.nodes if node._sequence_nr() in numbers]
    return [(node, known) for node in asked if (known := node.metadata.get(key)) is not None]


def batch_size_of(
    forwards: Sequence[Forward], calls: Sequence[LossCall], losses: Tensor | None, given: Any, axis: int
) -> int:
    """Number of samples of one backward pass; raises ``Undefined`` with the remedy where it cannot be known."""
    if isinstance(given, int):
        return given
    if losses is not None and losses.dim():
        return losses.shape[0]
    for forward in forwards:
        if isinstance(forward.size, str):
            raise Undefined(forward.size)
    sizes = {forward.size for forward in forwards if isinstance(forward.size, int)}
    if not sizes:
        sizes = {call.shape[axis if len(call.shape) > axis else 0] for call in calls if call.shape}
    given_to = [call.given.shape for call in calls if call.given is not None and call.given.shape]
    if given_to and (len(sizes) != 1 or any(prod(shape) % max(1, *sizes) for shape in given_to)):
        sizes = {shape[0] for shape in given_to}  # what pit.loss got names the samples
    if not sizes:  # a method other than ``forward`` was called, say
        raise Undefined("the batch size cannot be known (no call of the model was seen); give watch(..., batch_size=N)")
    if len(sizes) != 1:
        raise Undefined(f"the batch size cannot be known (calls with {sorted(sizes)} samples were seen); {REMEDY}")
    size = sizes.pop()
    if size < 1:
        raise Undefined(f"the batch is empty; {REMEDY}")
    return size


def _told(batch_size: Callable[..., int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | str:
    try:
        size = batch_size(*args, **kwargs)
    except Exception as error:
        return f"batch_size(...) failed: {type(error).__name__}: {error}"
    if isinstance(size, int) and size > 0:
        return size
    return f"batch_size(...) returned {size!r}; return a number of samples"


def _size(inputs: Sequence[Tensor], output: Any, axis: int) -> int | str | None:
    """Samples along the axis of the inputs; the output decides between inputs that disagree."""
    sizes = [tensor.shape[axis] for tensor in inputs if tensor.dim() > axis]
    results = next((tuple(tensor.shape) for tensor in tensors_in(output) if tensor.dim()), None)
    if results is None:
        distinct = set(sizes)
        return sizes[0] if len(distinct) == 1 else _disagree(distinct) if distinct else None
    for place in (axis, 0):
        if len(results) > place and results[place] in sizes:
            return results[place]
    flattened = {
        tensor.shape[axis]
        for tensor in inputs
        if tensor.dim() > axis and tensor.shape[axis] > 1 and _holds(results[0], tuple(tensor.shape), axis)
    }
    if len(flattened) > 1 or (not flattened and len(results) == 1):
        return _disagree(set(sizes))
    return flattened.pop() if flattened else results[0]


def _holds(rows: int, shape: tuple[int, ...], axis: int) -> bool:
    """Whether so many rows are the samples of an input times another of its axes: positions, flattened into one."""
    others = [size for place, size in enumerate(shape) if place != axis]
    return any(rows == shape[axis] * size for size in others)


def _disagree(sizes: set[int]) -> str:
    return f"the batch size cannot be known (inputs with {sorted(sizes)} entries were seen); {REMEDY}"


def _individual_losses(
    losses: Callable[..., Tensor] | None, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Tensor | str | None:
    """By the user's callable, or by convention an entry ``losses`` of the output."""
    try:
        if losses is not None:
            with torch.no_grad():
                found: Any = losses(output, *args, **kwargs)
        else:
            found = output.get("losses") if isinstance(output, dict) else getattr(output, "losses", None)
    except Exception as error:
        return f"losses(...) failed: {type(error).__name__}: {error}"
    if found is None or isinstance(found, Tensor):
        return None if found is None else found.detach()
    return f"losses(...) returned {type(found).__name__}; return a tensor with one loss per sample"


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of nested containers."""
    if isinstance(value, Tensor):
        if not value.is_nested:  # it has no shape
            yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from tensors_in(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from tensors_in(entry)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name))
    elif hasattr(value, "__dict__") and not isinstance(value, type | nn.Module):  # a plain object with ``.logits``
        yield from (entry for entry in vars(value).values() if isinstance(entry, Tensor))
