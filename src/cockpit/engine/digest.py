"""Gradients that are made before a replay: far smaller than what they are made of.

A recording reads tensors at fixed addresses, so those of a step are copied there. The scale of a normalisation has one
number for each sample and channel, made of two tensors as large as the network's results: it is made of the step's own
tensors, and copied instead of them.
"""

from dataclasses import replace

import torch
from torch import Tensor

from cockpit.engine.occasion import Given, Raw
from cockpit.engine.raw import Script
from cockpit.layers.forms import Dense

SMALLER = 8  # times
LARGE = 2**20  # bytes that are worth it


class Digest:
    """Parameters of a structure that are treated so, and the others."""

    def __init__(self, raw: Raw) -> None:
        with torch.no_grad():
            early = _worthwhile(raw)
        self._early, self._rest = raw.script.only(early), raw.script.only(raw.script.names - early)

    @torch.no_grad()
    def __call__(self, given: Given) -> Given:
        """The same step: the gradients of those parameters are made."""
        if not self._early.paths:
            return given
        made = self._early.forms(given.raw.collected)
        early = {name: form.value for name, form in made.items() if isinstance(form, Dense)}
        return given._replace(raw=self.rest(given.raw), early=early)

    def rest(self, raw: Raw) -> Raw:
        """What is collected for the other parameters."""
        collected = {place: what for place, what in raw.collected.items() if place in self._rest.readings}
        return replace(raw, script=self._rest, collected=collected)


def _worthwhile(raw: Raw) -> set[str]:
    """Parameters whose gradients are small, and nobody else's are made of the same."""
    found, script = set[str](), raw.script
    for name, form in script.forms(raw.collected).items():
        size = sum(tensor.nbytes for place in script.only({name}).readings for tensor in _tensors(raw, place))
        if isinstance(form, Dense) and size >= max(LARGE, SMALLER * form.value.nbytes):
            found.add(name)
    shared = _places(script, script.names - found)
    while alone := {name for name in found if _places(script, {name}) & shared}:
        found -= alone
        shared |= _places(script, alone)
    return found


def _places(script: Script, names: set[str]) -> set[int]:
    return set(script.only(names).readings)


def _tensors(raw: Raw, place: int) -> list[Tensor]:
    grads, saved = raw.collected.get(place, ((), ()))
    return [*(grad for grad in grads if grad is not None), *saved]
