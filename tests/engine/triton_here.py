"""Where the tests of kernels run: on a CUDA device, or by Triton's interpreter in a process of its own.

The interpreter must be chosen before Triton is imported, and then no other kernel of that process is compiled.
"""

import os
import warnings

import pytest
import torch

from cockpit.engine import kernels

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and os.environ.get("COCKPIT_TRITON") == "interpret"
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    HERE = kernels.usable(torch.zeros(1, device=DEVICE))
NOT_HERE = "kernels need a CUDA device with Triton, or Triton's interpreter (test_interpreter.py)"
needs_kernels = pytest.mark.skipif(not HERE, reason=NOT_HERE)
its_own_words = [  # how the interpreter turns its scalars into numbers, and numpy's words on products with inf and NaN
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
]
