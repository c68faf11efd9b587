"""Small parameters of one shape, reduced together: they cost calls, not arithmetic."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Statistic
from cockpit.engine.statistics.scan import Found

SMALL = 2**14  # elements of a parameter; more keep a device busy by themselves
AT_ONCE = 2**21  # elements of g_n of several parameters


def scan_together(g: Tensor, wanted: Sequence[Statistic], at: Sequence[At]) -> list[Found]:
    """Every statistic of each parameter, from all its g_n: [P, N, *shape]."""
    bases = list(dict.fromkeys(statistic.of or statistic for statistic in wanted))
    flat = g.flatten(2) if g.dim() > 2 else g[..., None]
    names = at[0].vectors.keys() if at else ()
    vectors = {name: torch.stack([beside.vectors[name].reshape(-1) for beside in at]) for name in names}
    found: list[Found] = [{} for _ in at]
    if at:
        at[0].took("definition", bases)
    for s in bases:
        if s.stacked is None:
            parts: Sequence[Tensor] = [s.chunk(g[p].clone(), beside) for p, beside in enumerate(at)]
        else:
            parts = s.stacked(flat, vectors).unbind(0)
        for here, part in zip(found, parts, strict=True):
            here[s] = part.view(g.shape[2:]) if s.keeps == "element" else part
    for here, beside in zip(found, at, strict=True):
        here |= {s: s.finish(here[s.of], beside) for s in wanted if s.of is not None and s.finish is not None}
    return found
