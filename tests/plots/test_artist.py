"""Drawing in a process of its own."""

from __future__ import annotations

import io
import os
import pickle
import time
from math import sqrt

import pytest

from cockpit.core.errors import CockpitError
from cockpit.core.recorded import Recorded
from cockpit.plots.artist import Artist, serve


def test_it_answers_in_another_process() -> None:
    artist = Artist()
    try:
        other = artist.call(os.getpid)
        assert other != os.getpid()
        assert artist.call(os.getpid) == other, "one process for all drawings"
        assert artist.call(sqrt, 9.0) == 3.0
        assert artist.call(print, "not an answer") is None
    finally:
        artist.close()
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)


def test_an_error_is_told_and_the_next_call_works() -> None:
    artist = Artist()
    try:
        with pytest.raises(CockpitError, match="ValueError"):
            artist.call(sqrt, -1.0)
        assert artist.call(sqrt, 4.0) == 2.0
    finally:
        artist.close()


def test_a_process_that_ends_is_replaced() -> None:
    artist = Artist()
    try:
        with pytest.raises(CockpitError, match="has ended"):
            artist.call(os._exit, 3)
        assert artist.call(sqrt, 4.0) == 2.0
    finally:
        artist.close()


def test_the_process_ends_with_its_input() -> None:
    artist = Artist()
    artist.call(os.getpid)
    process = artist._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=20)
    artist.close()


def test_closing_twice_is_fine() -> None:
    artist = Artist()
    artist.close()
    artist.call(time.time)
    artist.close()
    artist.close()


def test_calls_and_answers() -> None:
    calls = io.BytesIO(pickle.dumps((sqrt, (4.0,))) + pickle.dumps((Recorded, (3,))))
    answers = io.BytesIO()
    serve(calls, answers)
    answers.seek(0)
    assert pickle.load(answers) == (True, 2.0)
    done, said = pickle.load(answers)
    assert not done
    assert said.startswith("TypeError")
