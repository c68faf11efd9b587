"""How many samples a step has, read off the model's calls."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.losses import LossCall
from cockpit.engine.settings import Settings

REMEDY = "give it with watch(..., batch_size=N or a callable of the model's arguments), or say batch_axis="


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward call of the model."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    tensors: tuple[Tensor, ...]  # results that are part of the graph

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> "Forward":
        """Keep a call."""
        return cls(args, kwargs, output, tuple(t for t in _tensors(output) if t.grad_fn is not None))

    @property
    def predictions(self) -> list[Tensor]:
        """Results with a batch: not the loss itself."""
        return [t for t in self.tensors if t.dim()]

    def size(self, axis: int) -> int | None:
        """Samples of the first input that has the axis; where the output has no room for them, the output decides."""
        inputs, results = _shape([*self.args, self.kwargs], axis), _shape([self.output], 0)
        if inputs is None or results is None:
            shape = inputs or results
            return None if shape is None else shape[min(axis, len(shape) - 1)]
        fits = inputs[axis] > 0 and any(size % inputs[axis] == 0 for size in results)
        return inputs[axis] if fits else results[0]

    def individual_losses(self, losses: Callable[..., Tensor] | None) -> Tensor | None:
        """Individual losses by the user's callable, or by convention an entry ``losses`` of the output."""
        if losses is not None:
            with torch.no_grad():
                return losses(self.output, *self.args, **self.kwargs)
        if isinstance(self.output, dict):
            return self.output.get("losses")
        return getattr(self.output, "losses", None)


def batch_size_of(
    forwards: Sequence[Forward], calls: Sequence[LossCall], losses: Tensor | None, settings: Settings
) -> int:
    """Number of samples of one backward pass; raises ``Undefined`` with the remedy where it cannot be known."""
    if callable(settings.batch_size):
        if forwards:
            return sum(int(settings.batch_size(*f.args, **f.kwargs)) for f in forwards[-1:])
        raise Undefined(f"the model was not called, so batch_size(...) could not be asked; {REMEDY}")
    if settings.batch_size is not None:
        return settings.batch_size
    if losses is not None and losses.dim():
        return losses.shape[0]
    sizes = {size for forward in forwards if (size := forward.size(settings.batch_axis)) is not None}
    if not sizes:
        tensors = [t for call in calls for t in (call.prediction, call.values) if t is not None]
        sizes = {t.shape[settings.batch_axis] for t in tensors if t.dim() > settings.batch_axis}
    if len(sizes) != 1:
        seen = "no call of the model was seen" if not sizes else f"calls with {sorted(sizes)} samples were seen"
        raise Undefined(f"the batch size cannot be known ({seen}); {REMEDY}")
    size = sizes.pop()
    if size < 1:
        raise Undefined(f"the batch is empty; {REMEDY}")
    return size


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _tensors(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _tensors(entry)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _tensors(getattr(value, name))


def _shape(values: Sequence[Any], axis: int) -> tuple[int, ...] | None:
    """Shape of the first tensor that has the axis."""
    for tensor in (t for value in values for t in _tensors(value)):
        if tensor.dim() > axis:
            return tuple(tensor.shape)
    return None
