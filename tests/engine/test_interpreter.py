"""The tests of kernels once more, by Triton's interpreter: so they run where there is no GPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engine.triton_here import INTERPRETED, NOT_HERE

FILES = ("test_kernels.py", "test_conv_kernels.py", "test_picking.py", "test_settling.py")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter's process")
def test_under_the_interpreter() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "COCKPIT_TRITON": "interpret"}
    files = [str(Path(__file__).with_name(name)) for name in FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    if NOT_HERE in done.stdout:
        pytest.skip("Triton's interpreter does not run here: this version of it may not take this version of numpy")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
