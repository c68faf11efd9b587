"""MNIST and Fashion-MNIST: grey images of ten classes."""

from pathlib import Path

from cockpit.problems._base import Place, Splits, Variant
from cockpit.problems.data.augment import scaled
from cockpit.problems.data.fetch import File, broken, fetch
from cockpit.problems.data.idx import read_idx
from cockpit.problems.data.images import Images, checked
from cockpit.problems.data.splits import resident


def idx_files(source: str, checksums: tuple[str, str, str, str]) -> list[File]:
    """The four files of MNIST and of what is published like it."""
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    pairs = zip(names, checksums, strict=True)
    return [File(f"{name}.gz", f"{source}{name}.gz", f"md5:{md5}", also=(name,)) for name, md5 in pairs]


MNIST = idx_files(
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)
FASHION_MNIST = idx_files(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
)


def mnist(place: Place, variant: Variant) -> Splits:
    """Handwritten digits, 28 × 28, values between 0 and 1."""
    return grey("mnist", MNIST, place, variant)


def fashion_mnist(place: Place, variant: Variant) -> Splits:
    """Pictures of ten kinds of clothes, 28 × 28, values between 0 and 1."""
    return grey("fashion_mnist", FASHION_MNIST, place, variant)


def grey(dataset: str, files: list[File], place: Place, variant: Variant) -> Splits:
    """Splits of grey images in IDX files: nothing is augmented."""
    images, labels, test_images, test_labels = fetch(place, dataset, files)
    parts = [idx_pair(images, labels), idx_pair(test_images, test_labels)]
    return resident(dataset, parts[0], parts[1], variant, prepare=scaled)


def idx_pair(images: Path, labels: Path) -> Images:
    """Images [N, 1, H, W] and their labels."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3:
        raise broken(images, f"it holds an array of {pixels.shape} instead of images [N, height, width]")
    return checked(labels, pixels[:, None], classes, 10)
