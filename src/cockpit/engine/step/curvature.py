"""Curvature of one backward pass, computed before autograd frees its graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cockpit.core.errors import why
from cockpit.engine import scene
from cockpit.engine.autograd.graph import Graph
from cockpit.engine.autograd.samples import Seen
from cockpit.engine.capture import Capture
from cockpit.engine.lanczos import Eigenpair
from cockpit.engine.needs import MAX_EIGENVALUE, Diagonal, Need
from cockpit.engine.placement import Finder
from cockpit.engine.second_order import SecondOrder
from cockpit.engine.settings import Settings as Remembered
from cockpit.engine.step.settings import Settings

Vectors = dict[str, Tensor]


@dataclass
class Curvature:
    """What was asked of the curvature, or why it is not known."""

    diagonals: dict[Diagonal, list[Vectors] | str] = field(default_factory=dict)
    eigenpair: Eigenpair | str | None = None


def asked(needs: frozenset[Need]) -> bool:
    """Whether anything of the curvature is needed."""
    return MAX_EIGENVALUE in needs or any(isinstance(need, Diagonal) for need in needs)


def curvature_of(
    graph: Graph,
    roots: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    parameters: Mapping[str, Tensor],
    seen: Seen,
    needs: frozenset[Need],
    settings: Settings,
    key: int,
) -> Curvature:
    """Diagonals and the largest eigenvalue, as far as they are needed."""
    if settings.curvature is None:
        finder = Finder(settings.batch_axis)
        settings.curvature = Remembered(settings.batch_axis, settings.batch_size, finder=finder, seed=settings.seed)
    remembered: Remembered = settings.curvature
    shown = scene.Seen(seen.forwards, seen.calls, seen.size, seen.losses)
    captured: Capture | str
    try:
        captured = scene.find(graph, shown, parameters, remembered, False, True).capture
    except Exception as error:
        captured = why(error)
    second = SecondOrder(roots, seeds, parameters, captured, remembered, abs(key), graph.half is not None)
    checkpointed = scene.CHECKPOINTED if graph.checkpointed() else None
    with scene.unnoticed(roots[0].grad_fn), torch.enable_grad():
        second.compute(needs, checkpointed)
    return Curvature(second.diagonals, second.eigenpair)
