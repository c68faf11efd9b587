# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, import-untyped, unused-ignore"
"""The least kernel: if it runs, Triton, its compiler and the driver are in order."""

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit(do_not_specialize=["times"])
def probe_program(to, times):
    """Count 64 things in two places, some times."""
    for _ in range(0, times):
        tl.atomic_add(to + tl.arange(0, 64) % 2, tl.full([64], 1, tl.int64), sem="relaxed")


def probe(device: torch.device) -> bool:
    """Whether a kernel runs on ``device`` and counts right."""
    to = torch.zeros(2, dtype=torch.int64, device=device)
    probe_program[(1,)](to, 3)
    return to.tolist() == [96, 96]
