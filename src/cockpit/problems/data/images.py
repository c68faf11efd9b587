"""What data sets of images have in common."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.problems._base import Place, Splits, Variant
from cockpit.problems.data.batches import autoencoding, resized
from cockpit.problems.data.fetch import broken

Images = tuple[Tensor, Tensor]  # bytes [N, C, H, W] and classes [N]
Load = Callable[[Place, Variant], Splits]


def checked(path: Path, pixels: NDArray[np.uint8], classes: NDArray[np.uint8], known: int) -> Images:
    """Tensors of images and labels, if there is a known label for each image."""
    if classes.shape != (len(pixels),):
        raise broken(path, f"there are labels {classes.shape} for {len(pixels)} images")
    if classes.max(initial=0) >= known:
        raise broken(path, f"label {classes.max()} is beyond the {known} classes 0 to {known - 1}")
    return torch.from_numpy(np.ascontiguousarray(pixels)), torch.from_numpy(classes.astype(np.int64))


def of_size(load: Load, size: int, place: Place, variant: Variant) -> Splits:
    """Images of ``size`` × ``size`` pixels, from those of a data set."""
    return resized(load(place, variant), size)


def as_targets(load: Load, place: Place, variant: Variant) -> Splits:
    """Images of a data set, each its own target."""
    return autoencoding(load(place, variant))
