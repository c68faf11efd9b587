"""One thread for all tests: the nets are tiny, and threads that wait for each other on a busy machine take minutes."""

import os
import signal
from collections.abc import Iterator

import pytest

os.environ.setdefault("COCKPIT_QUIET", "1")  # the first test that watches would print a line
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for programs that tests start
# On some virtual machines the processor says that it multiplies tiles (AMX) and does not: torch's own products in half
# precision crash there, and with them all that follow.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: Ctrl-C would not reach any program
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _runs_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A watch without ``run=`` writes into the current folder: not into the source tree."""
    os.environ["COCKPIT_RUNS"] = str(tmp_path_factory.mktemp("runs"))
    yield
    del os.environ["COCKPIT_RUNS"]
