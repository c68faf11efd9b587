from __future__ import annotations

import numpy as np
from tests.store.contract import loss

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store.queue import BATCH_BYTES, Queue, size


def test_the_oldest_are_dropped_when_it_is_full() -> None:
    queue = Queue(records=5)
    for step in range(4):
        queue.put([loss(step), loss(step)])
    assert (queue.lost, len(queue)) == (4, 4)
    assert [entry.records[0].step for entry in queue.take()] == [2, 3]
    assert len(queue) == 0


def test_large_values_count_more() -> None:
    raw = Record(0, "Parameters", Kind.PER_PARAMETER, {"a": {"norm": 1.0, "raw": np.zeros(100_000)}})
    assert size(raw) > 800_000
    assert size(Record(0, "x", Kind.PER_SAMPLE, np.zeros(1000))) > 8000
    assert size(Record(0, "x", Kind.HISTOGRAM, Histogram((np.arange(101.0),), {"a": np.arange(100)}))) > 400
    queue = Queue(size=2_000_000)
    for _ in range(4):
        queue.put([raw])
    assert queue.lost == 2


def test_one_entry_is_kept_however_large() -> None:
    queue = Queue(records=1)
    queue.put([loss(0), loss(1)])
    assert (queue.lost, len(queue)) == (0, 2)


def test_a_batch_is_bounded() -> None:
    queue = Queue()
    huge = Record(0, "x", Kind.PER_SAMPLE, np.zeros(BATCH_BYTES // 16))
    for _ in range(5):
        queue.put([huge])
    assert [len(queue.take()) for _ in range(3)] == [2, 2, 1]


def test_a_closed_queue_counts_what_comes() -> None:
    queue = Queue()
    queue.put([loss(0)])
    queue.close()
    queue.put([loss(1), loss(2)])
    assert (queue.lost, queue.take()) == (3, [])
