"""What data sets of images have in common."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.problems.data.fetch import broken

Images = tuple[Tensor, Tensor]  # bytes [N, C, H, W] and classes [N]


def checked(path: Path, pixels: NDArray[np.uint8], classes: NDArray[np.uint8], known: int) -> Images:
    """Tensors of images and labels, if there is a known label for each image."""
    if classes.shape != (len(pixels),):
        raise broken(path, f"there are labels {classes.shape} for {len(pixels)} images")
    if classes.max(initial=0) >= known:
        raise broken(path, f"label {classes.max()} is beyond the {known} classes 0 to {known - 1}")
    return torch.from_numpy(np.ascontiguousarray(pixels)), torch.from_numpy(classes.astype(np.int64))
