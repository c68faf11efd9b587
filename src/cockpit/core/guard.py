"""Calls from a user's loop into our code: what fails in one of them costs us a step, never the user the training."""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from logging import Logger
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from cockpit.core.errors import why

LONGEST = 300  # characters of an error that are said: what torch adds about its memory is of no use here


class Guarded(Protocol):
    """Something that the user's loop calls."""

    def fault(self, error: Exception) -> None:
        """A call failed: say so, and let go of what was begun."""


Self = TypeVar("Self", bound=Guarded)
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def entry(
    method: Callable[Concatenate[Self, Given], Answer],
) -> Callable[Concatenate[Self, Given], Answer | None]:
    """Mark a method that the user's loop calls: its errors go to ``fault``, and the loop goes on with None.

    Ctrl-C and other exits pass through.
    """

    @wraps(method)
    def guarded(self: Self, /, *given: Given.args, **named: Given.kwargs) -> Answer | None:
        try:
            return method(self, *given, **named)
        except Exception as error:
            self.fault(error)
            return None

    guarded._torchdynamo_disable = True  # type: ignore[attr-defined]  # code of ours is never compiled into the loop
    return guarded


class Faults:
    """Says what failed: in a loop of a million steps the same words a few times only."""

    def __init__(self, log: Logger) -> None:
        self._log, self._counts = log, Counter[str]()

    def say(self, what: str, error: Exception) -> None:
        """Log that something could not be measured, at the 1st, 10th, 100th, ... time of its reason."""
        reason = why(error).splitlines()[0][:LONGEST]
        self._counts[reason] += 1
        count = self._counts[reason]
        if str(count).strip("0") == "1":
            again = "" if count == 1 else f" (for the {count}th time)"
            self._log.warning("%s could not be measured: %s%s", what, reason, again)
