"""CIFAR-10 and CIFAR-100 from every published form."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Splits, Variant
from cockpit.problems.data.augment import standardised
from cockpit.problems.data.batches import Resident
from cockpit.problems.data.cifar import cifar10, cifar100
from cockpit.problems.data.sample import write_sample

Bytes = NDArray[np.uint8]
LOADERS = {"cifar10": cifar10, "cifar100": cifar100}
FORMS = {
    "cifar10": ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz", "cifar-10-batches-py"),
    "cifar100": ("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz", "cifar-100-python"),
}


def load(dataset: str, folder: Path, variant: Variant | None = None) -> Splits:
    return LOADERS[dataset](Place(folder, download=False), variant or Variant())


def unpack(dataset: str, folder: Path) -> None:
    """Replace the archive by the folder in it."""
    archive = folder / dataset / FORMS[dataset][0]
    with tarfile.open(archive) as opened:
        opened.extractall(folder / dataset, filter="data")
    archive.unlink()


def python2(pixels: Bytes, name: bytes, labels: Bytes) -> bytes:
    """A dictionary of an array and a list as Python 2 and an old numpy pickled it: strings are bytes."""

    def string(text: bytes) -> bytes:
        return b"T" + struct.pack("<I", len(text)) + text

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    kind = b"cnumpy\ndtype\n" + string(b"u1") + number(0) + number(1) + b"\x87R"
    kind += b"(" + number(3) + string(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + string(b"b") + b"\x87R"
    shape = number(len(pixels)) + number(pixels.shape[1]) + b"\x86"
    array += b"(" + number(1) + shape + kind + b"\x89" + string(pixels.tobytes()) + b"tb"
    listed = b"](" + b"".join(number(int(label)) for label in labels) + b"e"
    return b"\x80\x02}(" + string(b"data") + array + string(name) + listed + b"u."


def convert(dataset: str, folder: Path, packed: bool) -> None:
    """Replace the binary archive by pickled arrays."""
    place = folder / dataset
    archive, target, name = (place / form for form in FORMS[dataset])
    labels = 1 if dataset == "cifar10" else 2
    name.mkdir()
    with tarfile.open(archive) as opened:
        for member in opened:
            file = opened.extractfile(member)
            assert file is not None
            records = np.frombuffer(file.read(), np.uint8).reshape(-1, labels + 3072)
            content = python2(records[:, labels:], b"labels" if labels == 1 else b"fine_labels", records[:, labels - 1])
            (name / member.name.rpartition("/")[2].removesuffix(".bin")).write_bytes(content)
    archive.unlink()
    if packed:
        with tarfile.open(target, "w:gz") as opened:
            opened.add(name, name.name)
        for file_path in name.iterdir():
            file_path.unlink()
        name.rmdir()


def everything(splits: Splits) -> tuple[torch.Tensor, torch.Tensor]:
    parts = (splits.valid, splits.train, splits.test)
    assert all(isinstance(part, Resident) for part in parts)
    return tuple(torch.cat([getattr(part, field) for part in parts]) for field in ("inputs", "targets"))  # type: ignore[return-value]


@pytest.mark.parametrize("dataset", LOADERS)
@pytest.mark.parametrize("form", ["folder", "pickled folder", "pickled archive"])
def test_every_form_gives_the_same(dataset: str, form: str, tmp_path: Path) -> None:
    write_sample(dataset, tmp_path)
    expected = everything(load(dataset, tmp_path))
    unpack(dataset, tmp_path) if form == "folder" else convert(dataset, tmp_path, packed=form == "pickled archive")
    found = everything(load(dataset, tmp_path))
    assert torch.equal(expected[0], found[0])
    assert torch.equal(expected[1], found[1])


@pytest.mark.parametrize("dataset", LOADERS)
def test_splits(dataset: str, tmp_path: Path) -> None:
    write_sample(dataset, tmp_path, 50)
    splits = load(dataset, tmp_path)
    assert splits.valid is not None
    assert [len(part) for part in (splits.train, splits.train_eval, splits.valid, splits.test)] == [40, 12, 10, 12]
    pixels, _ = everything(splits)
    assert pixels.shape == (62, 3, 32, 32)
    assert pixels.dtype == torch.uint8
    assert torch.equal(next(splits.valid.epoch(10))[0], standardised(pixels[:10]))
    drawn = next(splits.train.epoch(40, torch.Generator().manual_seed(0)))[0]
    assert not torch.equal(drawn.sort(0)[0], standardised(pixels[10:50]).sort(0)[0])  # augmented


def test_train_eval_is_augmented_with_a_generator_only(tmp_path: Path) -> None:
    write_sample("cifar10", tmp_path, 50)
    splits = load("cifar10", tmp_path)
    assert torch.equal(next(splits.train_eval.epoch(12))[0], next(splits.train.epoch(12))[0])
    drawn = [next(part.epoch(12, torch.Generator().manual_seed(1)))[0] for part in (splits.train_eval, splits.train)]
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], next(splits.test.epoch(12, torch.Generator().manual_seed(1)))[0])


def test_arrays_pickled_today(tmp_path: Path) -> None:
    pixels = np.arange(2 * 3072).reshape(2, 3072).astype(np.uint8)
    folder = tmp_path / "cifar100" / "cifar-100-python"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        (folder / part).write_bytes(pickle.dumps({"data": pixels, "fine_labels": [3, 99]}))
    splits = load("cifar100", tmp_path, Variant(validation=False))
    assert isinstance(splits.train, Resident)
    assert np.array_equal(splits.train.inputs.flatten(1).numpy(), pixels)
    assert splits.train.targets.tolist() == [3, 99]


def test_label_leak(tmp_path: Path) -> None:
    write_sample("cifar100", tmp_path)
    pixels, labels = everything(load("cifar100", tmp_path))
    leaked, same = everything(load("cifar100", tmp_path, Variant(label_leak=True)))
    assert torch.equal(labels, same)
    assert torch.equal(leaked[:, 0, 0, 0].long(), labels)  # the first red pixel is the label
    assert torch.equal(leaked.flatten(1)[:, 1:], pixels.flatten(1)[:, :-1])  # the rest moved by one, the last is lost
    with tarfile.open(tmp_path / "cifar100" / "cifar-100-binary.tar.gz") as opened:
        file = opened.extractfile("cifar-100-binary/test.bin")
        assert file is not None
        record = file.read()[:3074]
    assert leaked[64].flatten().tolist() == list(record[1:3073])


def test_cifar10_has_no_leak(tmp_path: Path) -> None:
    write_sample("cifar10", tmp_path)
    plain, asked = (everything(load("cifar10", tmp_path, Variant(label_leak=leak))) for leak in (False, True))
    assert torch.equal(plain[0], asked[0])


def archive(path: Path, named: dict[str, bytes]) -> None:
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as opened:
        for name, content in named.items():
            member = tarfile.TarInfo(f"any/{name}")
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (print, ("this must not be printed",))


@pytest.mark.parametrize(
    ("train", "fact"),
    [
        ({}, "does not hold train"),
        ({"train.bin": bytes(3073)}, "no whole number of 3074-byte records"),
        ({"train.bin": b""}, "no whole number"),
        ({"train.bin": bytes([0, 100]) + bytes(3072)}, "label 100 is beyond the 100 classes"),
        ({"train": pickle.dumps({"data": [1, 2]})}, "no pickled batch"),
        ({"train": pickle.dumps(Evil())}, "builtins.print is not part of an array"),
    ],
)
def test_broken_archives(
    train: dict[str, bytes], fact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive(tmp_path / "cifar100" / "cifar-100-binary.tar.gz", {"test.bin": bytes(3074), **train})
    with pytest.raises(CockpitError, match=fact):
        load("cifar100", tmp_path)
    assert capsys.readouterr().out == ""


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar-10-binary.tar.gz").write_bytes(b"<html>")
    with pytest.raises(CockpitError, match="cannot be unpacked"):
        load("cifar10", tmp_path)
