"""A Ray cluster that goes away, played by a server and a few functions."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.results.sweeps.plans import PLAN

from cockpit.bench.sweep import ray as engines
from cockpit.bench.sweep.engine import Parcel
from cockpit.bench.sweep.making import Context
from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.runs import groups


class Cluster:
    """Takes tasks, and never finishes one."""

    def __init__(self) -> None:
        self.head = socket.create_server(("127.0.0.1", 0))
        self.resources = {"CPU": 2.0}
        self.error: Exception | None = None
        self.cancelled, self.ended = 0, False
        names = ("WorkerCrashedError", "OutOfMemoryError", "NodeDiedError", "LocalRayletDiedError", "ObjectLostError")
        self.exceptions = SimpleNamespace(**{name: type(name, (Exception,), {}) for name in names})

    def init(self, **given: Any) -> None:
        pass

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address=f"127.0.0.1:{self.head.getsockname()[1]}")

    def remote(self, function: Any) -> Any:
        return SimpleNamespace(options=lambda **given: SimpleNamespace(remote=lambda *given: object()))

    def wait(self, tasks: list[Any], **given: Any) -> tuple[list[Any], list[Any]]:
        return (tasks, []) if self.error else ([], tasks)

    def get(self, task: Any) -> Any:
        assert self.error is not None
        raise self.error

    def cancel(self, task: Any, force: bool) -> None:
        self.cancelled += 1

    def shutdown(self) -> None:
        self.ended = True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    found = Cluster()
    monkeypatch.setattr(engines, "import_module", lambda name: found)
    monkeypatch.setattr(engines, "PATIENCE", 0.1)
    monkeypatch.setattr(engines, "_guard", lambda head, ended: None)
    yield found
    found.head.close()


def started(cluster: Cluster, folder: Path) -> engines.Ray:
    engine = engines.Ray(Context((), str(folder)), 2, None, {})
    engine.send(Parcel(7, tuple(groups(PLAN)[0].oneshot())))
    return engine


@pytest.mark.parametrize("gone", ["head", "machines"])
def test_a_cluster_that_goes_away(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    engine = started(cluster, tmp_path)
    engine._looked = engine._seen = 0.0  # long ago
    assert engine.news(0.0) == []  # it is there
    if gone == "head":
        cluster.head.close()
    else:
        cluster.resources = {}
    engine._looked -= 1
    assert engine.news(0.0) == []  # it may come back
    engine._looked, engine._seen = engine._looked - 1, engine._seen - engines.GONE
    with pytest.raises(CockpitError, match=r"the Ray cluster at 127.0.0.1:\d+ (does not answer|has no machine left)"):
        engine.news(0.0)
    engine.close()
    assert cluster.ended
    assert not cluster.cancelled  # nobody is there to do that


@pytest.mark.parametrize("name", ["NodeDiedError", "LocalRayletDiedError", "ObjectLostError"])
def test_a_machine_that_dies(cluster: Cluster, tmp_path: Path, name: str) -> None:
    engine = started(cluster, tmp_path)
    cluster.error = getattr(cluster.exceptions, name)("it died.\nmore")
    (news,) = engine.news(0.0)
    assert (news.number, news.over, news.died) == (7, False, "its machine: it died.")
    engine.close()
    assert not cluster.cancelled


def test_a_sweep_that_waits_for_a_head_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ended(Exception):
        pass

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(engines.os, "_exit", end)
    monkeypatch.setattr(engines, "PATIENCE", 0.01)
    monkeypatch.setattr(engines, "GONE", 0.0)
    monkeypatch.setattr(engines, "SPARE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        head = "{}:{}".format(*server.getsockname())
    with pytest.raises(Ended, match="3"):
        engines._guard(head, threading.Event())
    assert f"Error: the Ray cluster at {head} does not answer" in capsys.readouterr().err
    over = threading.Event()
    over.set()
    engines._guard(head, over)  # a sweep that has ended is left alone
