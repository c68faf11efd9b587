"""What a worker on another machine does: nothing of it is kept but the results it returns."""

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from cockpit.bench.sweep.engine import Parcel
from cockpit.bench.sweep.making import Context
from cockpit.results.sweeps.store import Entry

if TYPE_CHECKING:
    from cockpit.bench.sweep.work import Worker


def train(context: Context, parcel: Parcel) -> tuple[Entry, ...]:
    """Carry a parcel out."""
    worker = _worker(context)
    return tuple(entry for entries in worker.carry_out(parcel.specs) for entry in entries)


@lru_cache(1)
def _worker(context: Context) -> "Worker":
    import torch

    from cockpit.bench.sweep.work import Worker

    torch.set_num_threads(1)
    sys.path.extend(folder for folder in context.folders if folder not in sys.path)
    return Worker(context)
