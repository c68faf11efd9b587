"""A computation on a CPU, written down once and made again: the same operations on the same memory, nothing decided.

What a graph of kernels is on a GPU. Inputs are tensors that are pointed at other memory before each time; everything
else stays where it was.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from cockpit.core.errors import Undefined
from cockpit.engine import native

Result = TypeVar("Result")
Action = Callable[[], Any]
View = tuple[Tensor, int, torch.Size, tuple[int, ...]]  # offset from its input, shape, strides
aten = torch.ops.aten
COPIES = frozenset({aten._to_copy.default, aten.clone.default})
FRESH = frozenset({aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default})
FILLED = {aten.zeros.default: 0, aten.ones.default: 1}
LOOKS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
MASKS = frozenset({torch.bool, torch.uint8})


class Tape(Generic[Result]):
    """Runs a function and writes down what it does; its result is always the same tensors."""

    def __init__(
        self,
        function: Callable[[], Result],
        inputs: Sequence[Tensor],
        kept: Callable[[Result], Iterable[Tensor]] = lambda result: (),
    ) -> None:
        """``kept``: views of inputs that are read from the result, beside those that operations read."""
        self._actions: list[Action] = []
        self._inputs = inputs
        listening = _Listening(self._actions, inputs)
        with native.witnessed(listening.called), listening:
            self.result = function()
        self._views = listening.read(kept(self.result))

    def __call__(self) -> Result:
        """Do it again."""
        for source, views in self._views:
            storage, start = source.untyped_storage(), source.storage_offset()
            for view, offset, shape, stride in views:
                view.set_(storage, start + offset, shape, stride)
        for action in self._actions:
            action()
        return self.result

    def let_go(self, kept: Iterable[Tensor] = ()) -> None:
        """Point inputs and their views at nothing, until they are pointed anew; some views stay."""
        stay = {id(tensor) for tensor in kept}
        for tensor in (*self._inputs, *(view for _, views in self._views for view, *_ in views)):
            if id(tensor) not in stay:
                tensor.set_()  # type: ignore[call-overload]


class _Aside(threading.local):
    """Whether what is done now goes on no tape."""

    depth = 0


_asides = _Aside()


@contextmanager
def aside() -> Iterator[None]:
    """Look at numbers, to choose between ways that give the same results: a tape keeps to what was chosen."""
    _asides.depth += 1
    try:
        yield
    finally:
        _asides.depth -= 1


class _Listening(TorchDispatchMode):
    """Sees every operation of torch."""

    def __init__(self, actions: list[Action], inputs: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._actions = actions
        self._views: list[tuple[Tensor, list[View]]] = [(tensor, []) for tensor in inputs]  # of each input
        self._given = {_memory(tensor) for tensor in inputs if tensor.nbytes}
        self._read: set[int] = set()
        self._moving = {id(tensor): place for place, tensor in enumerate(inputs)}  # inputs and their views

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _asides.depth:
            return func(*args, **kwargs)
        if _looks(func, args):
            raise Undefined(f"{func} looks at numbers: what is done depends on them")
        found = func(*args, **kwargs)
        if func in FRESH:
            return found
        if _is_view(func):
            self._follow((args, kwargs), found)
            return found
        if any(_memory(tensor) in self._given for tensor in _tensors(found)):
            raise Undefined(f"{func} would write where an input lies")
        self._read |= {id(tensor) for tensor in _tensors((args, kwargs))}
        if func in FILLED:
            self._actions.append(partial(found.fill_, FILLED[func]))
        elif func._schema.is_mutable:
            self._actions.append(partial(func, *args, **kwargs))
        elif func in COPIES:
            self._actions.append(partial(found.copy_, args[0]))
        else:
            self._actions.append(_refill(func, args, kwargs, found))
        return found

    def called(self, function: Any, arguments: tuple[Any, ...]) -> None:
        """A compiled loop was called."""
        if _asides.depth:
            return
        self._actions.append(native.repeated(function, arguments, self._origin))

    def _origin(self, tensor: Tensor) -> tuple[Tensor, int] | None:
        """The input that a tensor is a view of, and how many bytes behind its beginning: loops need no more."""
        place = self._moving.get(id(tensor))
        if place is None:
            return None
        source = self._views[place][0]
        return source, int(tensor.storage_offset() - source.storage_offset()) * tensor.element_size()

    def read(self, kept: Iterable[Tensor]) -> list[tuple[Tensor, list[View]]]:
        """Inputs with those of their views that are read."""
        wanted = self._read | {id(tensor) for tensor in kept}
        found = [(source, [view for view in views if id(view[0]) in wanted]) for source, views in self._views]
        return [(source, views) for source, views in found if views]

    def _follow(self, given: Any, found: Any) -> None:
        """A view of an input is pointed anew with it; any other stays right by itself."""
        place = next((self._moving[id(tensor)] for tensor in _tensors(given) if id(tensor) in self._moving), None)
        if place is None:
            return
        source, views = self._views[place]
        for view in _tensors(found):
            offset = int(view.storage_offset()) - int(source.storage_offset())
            views.append((view, offset, view.shape, view.stride()))
            self._moving[id(view)] = place


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _looks(func: OpOverload, args: Any) -> bool:
    """Whether the size of its result depends on numbers, or they leave torch; which places are read may."""
    if func is aten.index.Tensor:
        return any(index.dtype in MASKS for index in _tensors(args[1]))
    return not LOOKS.isdisjoint(func.tags)


def _refill(func: OpOverload, args: Any, kwargs: Any, found: Any) -> Action:
    """Compute into the memory that holds the result."""
    results = list(_tensors(found))
    writing = _writing(func)
    if writing is not None and len(writing[1]) == len(results):
        overload, names = writing
        return partial(overload, *args, **kwargs, **dict(zip(names, results, strict=True)))

    def again() -> None:
        for result, fresh in zip(results, _tensors(func(*args, **kwargs)), strict=True):
            result.copy_(fresh)

    return again


@cache
def _writing(func: OpOverload) -> tuple[OpOverload, list[str]] | None:
    """The form of an operation that writes into given tensors, and their names."""
    given = [(argument.name, str(argument.type)) for argument in func._schema.arguments]
    for name in func.overloadpacket.overloads():
        overload = getattr(func.overloadpacket, name)
        arguments = overload._schema.arguments
        written = [argument.name for argument in arguments if argument.is_out]
        rest = [(argument.name, str(argument.type)) for argument in arguments if not argument.is_out]
        if written and rest == given:
            return overload, written
    return None


@cache
def _is_view(func: OpOverload) -> bool:
    returns = func._schema.returns
    return any(value.alias_info is not None and not value.alias_info.is_write for value in returns)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _tensors(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _tensors(entry)
