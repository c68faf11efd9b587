"""See every backward call while someone listens.

``Tensor.backward`` calls ``torch.autograd.backward``; while a step is tracked that name points here. So the loss that
is really backpropagated is known, work can be done on its graph before it is freed, and the moment when the gradients
are complete, before the user clips them, is simply the return of the call. One wrapper serves all listeners; all of
them prepare before any of them places hooks, so that none sees the other's work.
"""

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor


class Listener(Protocol):
    """Someone who wants to see backward passes."""

    def before(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> None:
        """The graph is complete; nothing has run."""

    def attach(self) -> bool:
        """Place hooks; True if the graph must outlive the pass."""

    def alone(self) -> bool:
        """Whether everything is on one GPU, and the order of the work the same on this thread as on autograd's own."""

    def detach(self) -> None:
        """Remove hooks, whether the pass succeeded or not."""

    def after(self) -> None:
        """The gradients are complete."""


_listeners: list[weakref.ref[Listener]] = []  # weak: a watch that is dropped without close() must not live on
_original: Callable[..., None] | None = None
_running = False


def listen(listener: Listener) -> None:
    """Show all backward passes to ``listener``, until it leaves or dies."""
    global _original
    _listeners.append(weakref.ref(listener, _drop))
    if _original is None:
        _original = torch.autograd.backward
        torch.autograd.backward = _tapped


def leave(listener: Listener) -> None:
    """Stop listening; the last one to leave puts torch's own function back."""
    for reference in [reference for reference in _listeners if reference() is listener]:
        _drop(reference)


def _drop(reference: "weakref.ref[Listener]") -> None:
    global _original
    if reference in _listeners:
        _listeners.remove(reference)
    if not _listeners and _original is not None and torch.autograd.backward is _tapped:
        torch.autograd.backward = _original
        _original = None


def _tapped(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, *args: Any, **kwargs: Any
) -> None:
    global _running
    original = _original
    assert original is not None
    shown = None if _running else _roots(tensors, grad_tensors)
    if shown is None:  # a backward pass inside another one (reentrant checkpointing), or nothing to see
        return original(tensors, grad_tensors, retain_graph, *args, **kwargs)
    listeners = [listener for reference in _listeners if (listener := reference()) is not None]
    for listener in listeners:
        listener.before(*shown)
    _running = True
    try:
        wishes = [listener.attach() for listener in listeners]
        if any(wishes):
            retain_graph = True
        with _here() if listeners and all(listener.alone() for listener in listeners) else nullcontext():
            original(tensors, grad_tensors, retain_graph, *args, **kwargs)
    finally:
        _running = False
        for listener in listeners:
            listener.detach()
    for listener in listeners:
        listener.after()
    return None


def _here() -> AbstractContextManager[Any]:
    """Run on this thread: handing Python over to another one and back costs more than a small net."""
    return torch.autograd.set_multithreading_enabled(False)


def _roots(tensors: Any, grads: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]] | None:
    roots = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors) if isinstance(tensors, list | tuple) else ()
    seeds = (grads,) if isinstance(grads, Tensor) else (None,) * len(roots) if grads is None else tuple(grads)
    fits = roots and len(seeds) == len(roots) and all(isinstance(root, Tensor) for root in roots)
    return (roots, seeds) if fits else None
