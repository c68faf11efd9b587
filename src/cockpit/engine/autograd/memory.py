"""Memory of a CPU that was freed and is kept by the allocator."""

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Return it to the system (glibc): what is made next, in pieces of another size, would come on top of it.

    Takes milliseconds, and more when the memory is taken again.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another system
        return None
