"""Nodes of a checkpointed block: what they saved is recomputed when it is read, and can be read once only.

Their own backward would find nothing left, so whatever is read here is put back. The names are torch's own and private:
where they have changed, nothing is read, and the reason says so.
"""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch.utils.checkpoint as checkpoint
from torch import Tensor

from cockpit.core.errors import Undefined

REENTRANT = (
    "activation checkpointing with use_reentrant=True hides operations from autograd's graph; "
    "pass use_reentrant=False to torch.utils.checkpoint.checkpoint"
)
UNREADABLE = "this version of torch does not let checkpointed tensors be read; leave that block without checkpointing"


class Borrowed:
    """Stands in for a node: reads what it saved and puts it back."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        raw: Any = getattr(self._node, f"_raw_{name.removeprefix('_')}", None)
        if isinstance(raw, list | tuple) and any(_is_recomputed(one) for one in raw):
            return type(raw)(_unpack(one.unpack_hook, one.data) for one in raw)
        return _unpack(raw.unpack_hook, raw.data) if _is_recomputed(raw) else getattr(self._node, name)

    def __call__(self, *grads: Tensor | None) -> Any:
        """Run the node's own backward; it may be run again."""
        lent = [(hook, holder, _unpack(hook, holder)) for hook, holder in _holders(self._node)]
        try:
            return self._node(*grads) if callable(self._node) else self._node.apply(*grads)
        finally:
            for hook, holder, tensor in lent:
                _put_back(hook, holder, tensor)


def recomputed(node: Any) -> bool:
    """Whether what the operation saved is recomputed when it is read."""
    return next(iter(_holders(node)), None) is not None


@contextmanager
def put_back(buffers: Iterable[Tensor]) -> Iterator[None]:
    """Whatever is recomputed inside leaves these as they are."""
    before = [(buffer, buffer.detach().clone()) for buffer in buffers]
    try:
        yield
    finally:
        for buffer, value in before:
            buffer.data.copy_(value)  # through ``data``: autograd counts changes of what it saved


def _holders(node: Any) -> Iterator[tuple[Any, Any]]:
    """The hook and the place of each saved tensor that is recomputed."""
    kind: Any = type(node)
    for name in _saved_by(kind):
        raw = getattr(node, name, None)
        for one in raw if isinstance(raw, list | tuple) else (raw,):
            if _is_recomputed(one):
                yield one.unpack_hook, one.data


def _is_recomputed(raw: Any) -> bool:
    hook = getattr(raw, "unpack_hook", None)
    return hook is not None and getattr(hook, "__qualname__", "").startswith("_checkpoint_hook")


def _unpack(hook: Any, holder: Any) -> Tensor:
    """Read a tensor and put it back at once."""
    _frame(hook, holder)  # before anything is taken
    tensor: Tensor = hook(holder)
    _put_back(hook, holder, tensor)
    return tensor


def _put_back(hook: Any, holder: Any, tensor: Tensor) -> None:
    group, handle = _group(), checkpoint._Handle()
    _frame(hook, holder).recomputed[group][handle] = tensor
    holder.handles[group] = handle


def _frame(hook: Any, holder: Any) -> Any:
    try:
        cells = zip(hook.__code__.co_freevars, hook.__closure__, strict=True)
        frame = {name: cell.cell_contents for name, cell in cells}["frame"]
        known = frame.recomputed is not None and holder.handles is not None and checkpoint._Handle is not None
    except (AttributeError, KeyError, TypeError):
        known = False
    if not known:
        raise Undefined(UNREADABLE)
    return frame


def _group() -> Any:
    """What torch tells one recomputation from another by."""
    groups = getattr(checkpoint, "GraphExecGroup", None)
    group = None if groups is None else groups._get_current_group()
    if group is not None:
        return group
    task = torch._C._current_graph_task_id()
    return int(uuid.uuid4()) if task == -1 else task


@cache
def _saved_by(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))
