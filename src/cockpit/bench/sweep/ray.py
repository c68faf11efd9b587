"""The engine of a Ray cluster: a task for each parcel; what is retried is decided by the sweep."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from cockpit.bench.sweep import remote
from cockpit.bench.sweep.engine import News, Parcel
from cockpit.bench.sweep.making import Context
from cockpit.core.errors import CockpitError


class Ray:
    """Tasks of a cluster, or of this machine."""

    def __init__(self, context: Context, workers: int | None, address: str | None, gpus: Mapping[str, float]) -> None:
        """Connect to a cluster.

        Args:
            context: What workers need to know.
            workers: Tasks at a time; otherwise one for each core.
            address: Of the cluster's head; None for a cluster of this machine, which ends with the sweep.
            gpus: Shares of a GPU that runs of a problem take.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray: Any = import_module("ray")  # not typed throughout
        except ImportError as error:
            raise CockpitError("--on ray needs ray; install it with pip install 'cockpit-deck[ray]'") from error
        own: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
        try:
            ray.init(address=address or "local", logging_level="ERROR", log_to_driver=False, **own)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise CockpitError(f"no Ray cluster at {address or 'this machine'}: {error}") from error
        self._ray, self._gpus = ray, gpus
        self._contexts = {False: replace(context, device="cpu"), True: replace(context, device="cuda")}
        self.slots = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self._task = ray.remote(remote.train)
        self._out: dict[Any, int] = {}

    def send(self, parcel: Parcel) -> None:
        """See :class:`Engine`."""
        share = self._gpus.get(parcel.specs[0].task.name, 0.0)
        task = self._task.options(num_cpus=1, num_gpus=share, max_retries=0)
        self._out[task.remote(self._contexts[share > 0], parcel)] = parcel.number

    def news(self, timeout: float) -> Sequence[News]:
        """See :class:`Engine`."""
        ready, _ = self._ray.wait(list(self._out), num_returns=1, timeout=timeout)
        return [self._taken(reference) for reference in ready]

    def close(self) -> None:
        """See :class:`Engine`."""
        for reference in self._out:
            self._ray.cancel(reference, force=True)
        self._ray.shutdown()

    def _taken(self, reference: Any) -> News:
        number = self._out.pop(reference)
        try:
            return News(number, tuple(self._ray.get(reference)), over=True)
        except (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.OutOfMemoryError) as error:
            return News(number, died=str(error).splitlines()[0])
