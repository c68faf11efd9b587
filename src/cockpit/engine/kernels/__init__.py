"""Kernels for NVIDIA GPUs, in Triton: histograms and one-pass statistics of per-sample gradients.

Ask :func:`usable` first, of every tensor; Triton is imported only then. Tensors are float32, bfloat16 or float16 and
are widened on the way. No call waits for the device; each can be captured in a CUDA graph, once the same call has run
before (kernels are built, and the bins brought to the device, at the first).
"""

from cockpit.engine.kernels.devices import held_back, obstacle, usable
from cockpit.engine.kernels.histograms import outer_1d, outer_2d, scan_2d
from cockpit.engine.kernels.scanning import scan

__all__ = ["held_back", "obstacle", "outer_1d", "outer_2d", "scan", "scan_2d", "usable"]
