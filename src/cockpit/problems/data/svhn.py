"""SVHN: photographs of house numbers."""

from pathlib import Path

import numpy as np

from cockpit.problems._base import Place, Splits, Variant
from cockpit.problems.data.augment import Crop, Distort, standardised
from cockpit.problems.data.fetch import File, broken, fetch
from cockpit.problems.data.images import Images, checked
from cockpit.problems.data.matlab import read_mat
from cockpit.problems.data.splits import resident

SVHN = [
    File(f"{part}_32x32.mat", f"http://ufldl.stanford.edu/housenumbers/{part}_32x32.mat", f"md5:{md5}")
    for part, md5 in (("train", "e26dedcc434d2e4c54c9b2d4a06d8373"), ("test", "eb5a983be6a315427106f1b164d9cef3"))
]


def svhn(place: Place, variant: Variant) -> Splits:
    """House numbers, 32 × 32, never mirrored; the 'extra' images are not used."""
    train, test = (housenumbers(path) for path in fetch(place, "svhn", SVHN))
    return resident("svhn", train, test, variant, Distort(Crop(32, pad=2, mirror=False)), standardised)


def housenumbers(path: Path) -> Images:
    """Images [N, 3, 32, 32] and digits; the files say 10 for the digit 0."""
    arrays = read_mat(path)
    if not {"X", "y"} <= arrays.keys() or arrays["X"].shape[:3] != (32, 32, 3) or arrays["X"].ndim != 4:
        shapes = {name: array.shape for name, array in arrays.items()}
        raise broken(path, f"it holds {shapes} instead of images X (32, 32, 3, N) and labels y")
    labels = arrays["y"].reshape(-1).astype(np.uint8)
    pixels = arrays["X"].astype(np.uint8, copy=False).transpose(3, 2, 0, 1)
    return checked(path, pixels, np.where(labels == 10, 0, labels), 10)
