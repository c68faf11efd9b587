"""One thread for all tests: the nets are tiny, and threads that wait for each other on a busy machine take minutes."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for programs that tests start

import torch

torch.set_num_threads(1)
