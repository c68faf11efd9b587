"""See every backward call while someone listens.

``Tensor.backward`` calls ``torch.autograd.backward``; while a step is tracked that name points here. So the loss that
is really backpropagated is known, work can be done on its graph before it is freed, and the moment when the gradients
are complete, before the user clips them, is simply the return of the call. One wrapper serves all listeners.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch


class Proceed(Protocol):
    """Runs the backward pass; ``retain`` keeps the graph."""

    def __call__(self, retain: bool = False) -> None:
        """Run it."""


Listener = Callable[[Proceed, tuple[torch.Tensor, ...], tuple[torch.Tensor | None, ...]], None]

_listeners: list[Listener] = []
_original: Callable[..., None] | None = None


def listen(listener: Listener) -> None:
    """Call ``listener(proceed, roots, gradients)`` instead of each backward pass; it must call ``proceed`` once."""
    global _original
    _listeners.append(listener)
    if _original is None:
        _original = torch.autograd.backward
        torch.autograd.backward = _tapped


def leave(listener: Listener) -> None:
    """Stop listening; the last one to leave puts torch's own function back."""
    global _original
    if listener in _listeners:
        _listeners.remove(listener)
    if not _listeners and _original is not None and torch.autograd.backward is _tapped:
        torch.autograd.backward = _original
        _original = None


def _tapped(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, *args: Any, **kwargs: Any
) -> None:
    original = _original
    assert original is not None

    def proceed(retain: bool = False) -> None:
        original(tensors, grad_tensors, True if retain else retain_graph, *args, **kwargs)

    roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    given = (grad_tensors,) if isinstance(grad_tensors, torch.Tensor) or grad_tensors is None else tuple(grad_tensors)
    chain: Proceed = proceed
    if len(given) == 1 and given[0] is None:
        given = (None,) * len(roots)
    if len(given) == len(roots) and all(isinstance(root, torch.Tensor) for root in roots):
        for listener in reversed(tuple(_listeners)):
            chain = _bound(listener, chain, roots, given)
    chain()


def _bound(
    listener: Listener, proceed: Proceed, roots: tuple[torch.Tensor, ...], given: tuple[torch.Tensor | None, ...]
) -> Proceed:
    def bound(retain: bool = False) -> None:
        listener(proceed if not retain else lambda retain=True: proceed(True), roots, given)

    return bound
