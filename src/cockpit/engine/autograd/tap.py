"""See every backward call while someone listens.

``Tensor.backward`` calls ``torch.autograd.backward``; while a model is watched that name points here. So the loss that
is really backpropagated is known, work can be done on its graph before it is freed, and the moment when the gradients
are complete, before the user clips them, is simply the return of the call. One wrapper serves all listeners, and those
who only take the loss of every step; all of them prepare before any of them places hooks, so that none sees the other's
work. Trainings in several threads do not see each other: whether a pass is nested is known for each thread, and a
listener says which passes concern it.
"""

import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from cockpit.engine.autograd.eager import uncompiled


class Listener(Protocol):
    """Someone who wants to see backward passes; none of its methods raises, and None means no."""

    def concerns(self, roots: tuple[Tensor, ...]) -> bool | None:
        """Whether a pass, perhaps of another thread, is to be shown."""

    def before(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> None:
        """The graph is complete; nothing has run."""

    def attach(self) -> bool | None:
        """Place hooks; True if the graph must outlive the pass."""

    def alone(self) -> bool | None:
        """Whether everything is on one GPU, and the order of the work the same on this thread as on autograd's own."""

    def detach(self) -> None:
        """Remove hooks, whether the pass succeeded or not."""

    def after(self) -> None:
        """The gradients are complete."""


class Observer(Protocol):
    """Someone who wants to see the loss of every pass, and nothing of its graph; it never raises."""

    def sees(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> Callable[[], Any] | None:
        """A pass is about to run: what to call when it has succeeded."""


_listeners: list[weakref.ref[Listener]] = []  # weak: a watch that is dropped without close() must not live on
_observers: list[weakref.ref[Observer]] = []
_torchs: Callable[..., None] = torch.autograd.backward
_original: Callable[..., None] | None = None  # what the name pointed to before; None: nobody listens
_here = threading.local()  # .running: a pass that is being shown runs in this thread
_changing, _NOWHERE = threading.Lock(), nullcontext()


def listen(listener: Listener) -> None:
    """Show all backward passes to ``listener``, until it leaves or dies."""
    _join(_listeners, listener)


def observe(observer: Observer) -> None:
    """The same for one who takes no part in them."""
    _join(_observers, observer)


def leave(one: Listener | Observer) -> None:
    """Stop; the last one to leave puts torch's own function back."""
    known: list[weakref.ref[Any]] = [*_listeners, *_observers]
    for reference in [reference for reference in known if reference() is one]:
        _drop(reference)


def _join(known: list[Any], one: Any) -> None:
    global _original
    with _changing:
        known.append(weakref.ref(one, _drop))
        if _original is None:
            _original = torch.autograd.backward
            torch.autograd.backward = _tapped


def _drop(reference: "weakref.ref[Any]") -> None:
    global _original
    with _changing:
        for known in _listeners, _observers:
            if reference in known:
                known.remove(reference)
        if not _listeners and not _observers and _original is not None and torch.autograd.backward is _tapped:
            torch.autograd.backward = _original
            _original = None


def _tapped(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, *args: Any, **kwargs: Any
) -> None:
    original = _original or _torchs  # another thread may have dropped the last listener just now
    shown = None if getattr(_here, "running", False) else _roots(tensors, grad_tensors)
    if shown is None:  # a backward pass inside another one (reentrant checkpointing), or nothing to see
        return original(tensors, grad_tensors, retain_graph, *args, **kwargs)
    seen = [done for ref in tuple(_observers) if (one := ref()) is not None and (done := one.sees(*shown)) is not None]
    known = [listener for ref in tuple(_listeners) if (listener := ref()) is not None] if _listeners else []
    listeners = [listener for listener in known if listener.concerns(shown[0])]
    for listener in listeners:
        listener.before(*shown)
    _here.running = True
    try:
        wishes = [listener.attach() for listener in listeners]
        if any(wishes):
            retain_graph = True
        alone = listeners and all(listener.alone() for listener in listeners)
        with torch.autograd.set_multithreading_enabled(False) if alone else _NOWHERE:  # on this thread
            original(tensors, grad_tensors, retain_graph, *args, **kwargs)
    finally:
        _here.running = False
        for listener in listeners:
            listener.detach()
    for done in seen:
        done()
    for listener in listeners:
        listener.after()


uncompiled(_tapped)


def _roots(tensors: Any, grads: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]] | None:
    """What is backpropagated; None where torch itself will say what is wrong with it."""
    roots = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors) if isinstance(tensors, list | tuple) else ()
    if grads is None or isinstance(grads, Tensor):
        seeds = (grads,) if isinstance(grads, Tensor) else (None,) * len(roots)
    else:
        seeds = tuple(grads) if isinstance(grads, list | tuple) else ()
    fits = roots and len(seeds) == len(roots) and all(isinstance(root, Tensor) for root in roots)
    return (roots, seeds) if fits else None
