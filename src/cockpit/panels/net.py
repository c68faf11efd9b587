"""The layers of the net that a run trained: their names, types and parameters, in order of depth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.core.recorded import SUMMED
from cockpit.core.source import Parts, Source, Values
from cockpit.panels.pattern import compiled

UNKNOWN = "type unknown"


@dataclass(frozen=True)
class Layer:
    """A module with parameters of its own, or several neighbours drawn as one."""

    name: str
    type: str
    parameters: tuple[str, ...]
    depth: int


def layers_of(source: Source, keys: Sequence[str], pattern: str | None = None) -> list[Layer]:
    """The layers that hold these parameters, in the order of the keys; without metadata, from the names alone.

    A pattern looks for name, type and parameters.
    """
    owner: dict[str, tuple[str, str]] = {}
    for layer in _described(source.metadata):
        for parameter in layer.get("parameters") or ():
            owner[str(parameter.get("name"))] = (str(layer.get("name") or "net"), str(layer.get("type") or UNKNOWN))
    found: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        named = key.rpartition(".")[0] or key
        found.setdefault(owner.get(key, (named, UNKNOWN)), []).append(key)
    layers = [Layer(name, kind, tuple(held), depth) for depth, ((name, kind), held) in enumerate(found.items())]
    if pattern is None:
        return layers
    expression = compiled(pattern)
    return [layer for layer in layers if any(map(expression.search, (layer.name, layer.type, *layer.parameters)))]


def _described(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    model = metadata.get("model")
    layers = model.get("layers") if isinstance(model, Mapping) else None
    return [layer for layer in layers or () if isinstance(layer, Mapping)]


def bands(layers: Sequence[Layer], most: int) -> list[Layer]:
    """Join neighbours until there are at most ``most`` rows to draw."""
    every = max(-(-len(layers) // most), 1)
    if every == 1:
        return list(layers)
    joined = []
    for begin in range(0, len(layers), every):
        part = layers[begin : begin + every]
        name = f"{part[0].name} … {part[-1].name}" if len(part) > 1 else part[0].name
        kinds = list(dict.fromkeys(layer.type for layer in part))
        held = tuple(key for layer in part for key in layer.parameters)
        joined.append(Layer(name, kinds[0] if len(kinds) == 1 else "several types", held, part[0].depth))
    return joined


def by_type(layers: Sequence[Layer]) -> list[Layer]:
    """Join all layers of one type, the commonest first."""
    held: dict[str, list[str]] = {}
    for layer in layers:
        held.setdefault(layer.type, []).extend(layer.parameters)
    counts = {kind: sum(layer.type == kind for layer in layers) for kind in held}
    order = sorted(held, key=lambda kind: -counts[kind])
    return [Layer(f"{kind} ({counts[kind]})", kind, tuple(held[kind]), place) for place, kind in enumerate(order)]


def rule_of(source: Source, name: str) -> str:
    """How the parts of a value add up: ``"sum"`` or ``"norm"``."""
    return source.constant(name, "total") or ("sum" if name in SUMMED else "norm")


def combined(parts: Parts, layers: Sequence[Layer], rule: str) -> Values:
    """One number for each layer at each step; NaN where no part of a layer is known."""
    column = {key: place for place, key in enumerate(parts.keys)}
    result: Values = np.full((len(parts), len(layers)), np.nan)
    for place, layer in enumerate(layers):
        values = parts.values[:, [column[key] for key in layer.parameters if key in column]]
        known = ~np.isnan(values)
        filled = np.where(known, values, 0.0)
        total = filled.sum(1) if rule == "sum" else np.sqrt(np.square(filled).sum(1))
        result[:, place] = np.where(known.any(1), total, np.nan)
    return result


def counts_of(parts: Mapping[str, NDArray[np.int64]], layer: Layer) -> NDArray[np.int64] | None:
    """The counts of all parameters of a layer together; None if there are none."""
    held = [parts[key] for key in layer.parameters if key in parts]
    return np.sum(held, axis=0) if held else None
