"""ImageNet: folders of JPEG files, one for each class, decoded while the model trains."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batch, Place, Splits, Variant
from cockpit.problems.data.augment import Crop, scaled, standardised
from cockpit.problems.data.batches import Shuffled, batched, complete
from cockpit.problems.data.splits import sizes, train_eval

DECODED = 256  # height and width of what is cut out of an image whose smaller side has this size
SIZE = 224  # of what the model gets
CLASSES = 1001  # 0 is background, which no image shows
AHEAD = 4  # batches decoded in advance
ENDINGS = {".jpeg", ".jpg"}
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Photographs:
    """Image files and their labels; Pillow decodes them in threads, which it does without holding up Python."""

    files: tuple[Path, ...]
    labels: Tensor  # [N]
    augment: Crop | None = None
    device: torch.device = CPU

    def __len__(self) -> int:
        """Number of images."""
        return len(self.files)

    def steps(self, batch_size: int) -> int:
        """Number of complete batches; the rest is left out."""
        return complete(len(self), batch_size)

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """All complete batches: centre crops, or random ones where the split is augmented and a generator given."""
        batches = batched(Shuffled(len(self))(generator, shuffle), batch_size)
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            for rows, images in self._decoded(pool, batches):
                inputs, targets = self._arrived(images), self._arrived(self.labels[rows])
                yield self._prepared(inputs, generator), targets
        finally:  # an epoch may be left early
            pool.shutdown(cancel_futures=True)

    def _decoded(self, pool: ThreadPoolExecutor, batches: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows and images of each batch, the next ones already under way."""
        waiting: deque[tuple[Tensor, list[Future[Tensor]]]] = deque()
        left = iter(batches)

        def submit(count: int) -> None:
            for rows in islice(left, count):
                waiting.append((rows, [pool.submit(decoded, self.files[row]) for row in rows.tolist()]))

        submit(AHEAD)
        while waiting:
            rows, futures = waiting.popleft()
            submit(1)
            yield rows, torch.stack([future.result() for future in futures])

    def _arrived(self, tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    def _prepared(self, images: Tensor, generator: torch.Generator | None) -> Tensor:
        if self.augment is not None and generator is not None:
            images = self.augment(images, generator)
        else:
            edge = (DECODED - SIZE) // 2
            images = images[:, :, edge : edge + SIZE, edge : edge + SIZE]
        return standardised(scaled(images))

    def to(self, device: torch.device | str) -> "Photographs":
        """Return the images for a device, copied batch by batch."""
        return replace(self, device=torch.empty(0, device=device).device)


def pillow() -> Any:
    """Pillow's module for images, if it is installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise CockpitError("JPEG files are read by Pillow, which is not installed: pip install pillow") from error
    return Image


def decoded(path: Path) -> Tensor:
    """The centre square of an image whose smaller side is brought to 256, bytes [3, 256, 256]."""
    module = pillow()
    try:
        with module.open(path) as image:
            width, height = image.size
            scale = DECODED / min(width, height)
            size = (max(DECODED, round(width * scale)), max(DECODED, round(height * scale)))
            whole = image.convert("RGB").resize(size, module.Resampling.BILINEAR)
    except OSError as error:
        raise CockpitError(
            f"{path} cannot be read as an image ({error}); delete it or put a good copy there"
        ) from error
    left, top = (size[0] - DECODED) // 2, (size[1] - DECODED) // 2
    square = whole.crop((left, top, left + DECODED, top + DECODED))
    return torch.from_numpy(np.array(square)).permute(2, 0, 1)


def listed(folder: Path, classes: list[str]) -> tuple[list[Path], list[int]]:
    """Image files below the folder of each class, and their labels, which begin at 1."""
    files, labels = [], []
    for label, name in enumerate(classes, start=1):
        found = sorted(file for file in (folder / name).glob("*") if file.suffix.lower() in ENDINGS)
        files += found
        labels += [label] * len(found)
    return files, labels


def imagenet(place: Place, variant: Variant) -> Splits:
    """Photographs of a thousand kinds of things, 224 × 224; held out are training images drawn once, by a fixed seed.

    ``imagenet/train`` and ``imagenet/val`` hold a folder of JPEG files for each class; test is the official validation
    set. The labels are 1 to 1000, in the order of the folders' names.
    """
    pillow()
    folder = place.folder / "imagenet"
    train, test = folder / "train", folder / "val"
    classes = sorted(entry.name for entry in train.iterdir() if entry.is_dir()) if train.is_dir() else []
    if not classes or not test.is_dir():
        raise CockpitError(
            f"no data for 'imagenet': put the images in {train} and {test}, a folder of JPEG files for each class "
            "(from https://image-net.org/download.php, which asks for an account)"
        )
    if len(classes) >= CLASSES:
        raise CockpitError(f"{train} has {len(classes)} folders of classes; there are at most {CLASSES - 1}")
    files, labels = listed(train, classes)
    tested = photographs(*listed(test, classes))
    held = sizes(len(files), len(tested), "imagenet", variant).valid
    drawn = np.random.RandomState(42).permutation(len(files)).tolist()
    kept = [([files[row] for row in rows], [labels[row] for row in rows]) for rows in (drawn[held:], drawn[:held])]
    trained = photographs(*kept[0], augment=Crop(SIZE))
    return Splits(trained, train_eval(trained, tested), photographs(*kept[1]) if held else None, tested)


def photographs(files: list[Path], labels: list[int], augment: Crop | None = None) -> Photographs:
    """A split of image files."""
    return Photographs(tuple(files), torch.tensor(labels, dtype=torch.long), augment)
