"""The engine of a Ray cluster: a task for each parcel; what is retried is decided by the sweep."""

import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from cockpit.bench.sweep import remote
from cockpit.bench.sweep.engine import INCOMPLETE, News, Parcel
from cockpit.bench.sweep.making import Context
from cockpit.core.errors import CockpitError

RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"  # seconds without the head after which Ray ends a process
GONE = max(float(os.environ.get(RECONNECT, 60)) - 25, 5.0)  # seconds after which a sweep ends by itself, and says so
PATIENCE = 2.0  # seconds for its answer
SPARE = 5.0  # seconds more for a sweep that waits for Ray


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
        except Exception as error:  # of many kinds
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise CockpitError(f"no Ray cluster at {address or 'this machine'}: {said}") from error
        self._ray, self._gpus = ray, gpus
        self._contexts = {False: replace(context, device="cpu"), True: replace(context, device="cuda")}
        self.slots = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self._task = ray.remote(remote.train)
        self._out: dict[Any, int] = {}
        self._head = str(ray.get_runtime_context().gcs_address)
        self._seen = self._looked = time.monotonic()  # when the cluster was last there, and when that was asked
        self._ended = threading.Event()
        threading.Thread(target=_guard, args=(self._head, self._ended), daemon=True).start()

    def send(self, parcel: Parcel) -> None:
        """See :class:`Engine`."""
        share = self._gpus.get(parcel.specs[0].task.name, 0.0)
        task = self._task.options(num_cpus=1, num_gpus=share, max_retries=0)
        self._out[task.remote(self._contexts[share > 0], parcel)] = parcel.number

    def news(self, timeout: float) -> Sequence[News]:
        """See :class:`Engine`."""
        ready, _ = self._ray.wait(list(self._out), num_returns=1, timeout=timeout)
        if time.monotonic() - self._looked > PATIENCE:
            self._look()
        return [self._taken(reference) for reference in ready]

    def close(self) -> None:
        """See :class:`Engine`."""
        for reference in () if self._ended.is_set() else self._out:  # a head that is gone would be waited for
            self._ray.cancel(reference, force=True)
        self._ended.set()
        self._ray.shutdown()

    def _look(self) -> None:
        """Raise an error where the cluster has been gone for a while: Ray itself waits, or ends without a word."""
        self._looked = time.monotonic()
        gone = _answer(self._head)
        if gone is None and not self._ray.cluster_resources().get("CPU"):
            gone = "has no machine left"
        if gone is None:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > GONE:
            self._ended.set()
            raise CockpitError(_told(self._head, gone))

    def _taken(self, reference: Any) -> News:
        number, errors = self._out.pop(reference), self._ray.exceptions
        try:
            return News(number, tuple(self._ray.get(reference)), over=True)
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            return News(number, died=str(error).splitlines()[0])
        except (errors.NodeDiedError, errors.LocalRayletDiedError, errors.ObjectLostError) as error:
            return News(number, died=f"its machine: {str(error).splitlines()[0]}")


def _answer(head: str) -> str | None:
    """What is wrong with the cluster's head; None where it answers."""
    host, _, port = head.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        return f"does not answer: {error}"
    return None


def _told(head: str, gone: str) -> str:
    return f"the Ray cluster at {head} {gone}; what has ended is kept, the same command goes on when there is one"


def _guard(head: str, ended: threading.Event) -> None:
    """End this process where a call of Ray waits for a head that is gone: Ray would, and as if all were well."""
    seen = time.monotonic()
    while not ended.wait(PATIENCE):
        gone = _answer(head)
        if gone is None:
            seen = time.monotonic()
        elif time.monotonic() - seen > GONE + SPARE:
            sys.stderr.write(f"Error: {_told(head, gone)}\n")
            sys.stderr.flush()
            os._exit(INCOMPLETE)
