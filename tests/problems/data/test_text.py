"""War and Peace: what is the book, its characters as numbers, and batches that go on where the last ended."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batches, Place, Variant
from cockpit.problems.data.sample import write_sample
from cockpit.problems.data.text import Columns, Windows, book, encoded, tolstoi, vocabulary, war_and_peace_windows


def put(folder: Path, name: str, text: str, encoding: str = "utf-8") -> Place:
    (folder / "tolstoi").mkdir(exist_ok=True)
    (folder / "tolstoi" / name).write_bytes(text.encode(encoding))
    return Place(folder, download=False)


@pytest.mark.parametrize("characters", [0, 1, 5, 11, 12, 13, 100, 121, 122])
@pytest.mark.parametrize("batch", [1, 3])
def test_columns_against_a_loop(characters: int, batch: int) -> None:
    text, length = torch.arange(characters, dtype=torch.uint8), 4
    steps = max(0, characters - 1) // (batch * length)
    expected = []
    for k in range(steps):
        rows = [[r * steps * length + k * length + t for t in range(length)] for r in range(batch)]
        expected.append((rows, [[place + 1 for place in row] for row in rows]))
    columns = Columns(text, length)
    found = [(inputs.tolist(), targets.tolist()) for inputs, targets in columns.epoch(batch)]
    assert found == expected
    assert columns.steps(batch) == steps


def test_columns_are_never_shuffled() -> None:
    columns = Columns(torch.arange(100, dtype=torch.uint8), 5)
    plain, drawn = list(columns.epoch(3)), list(columns.epoch(3, torch.Generator().manual_seed(0)))
    assert all(torch.equal(one[0], two[0]) for one, two in zip(plain, drawn, strict=True))
    assert plain[0][0].dtype == plain[0][1].dtype == torch.int64


def test_windows_in_order() -> None:
    windows = Windows(torch.arange(26, dtype=torch.uint8), 4)
    found = [inputs.tolist() for inputs, _ in windows.epoch(3)]
    assert found == [[[4 * (3 * k + r) + t for t in range(4)] for r in range(3)] for k in range(2)]
    assert (len(windows), windows.steps(3)) == (6, 2)
    assert list(windows.epoch(7)) == []


def test_windows_from_anywhere() -> None:
    windows = Windows(torch.arange(26, dtype=torch.uint8), 4)
    seen: set[int] = set()
    for seed in range(60):
        first, again = (list(windows.epoch(2, torch.Generator().manual_seed(seed))) for _ in range(2))
        for (inputs, targets), (same, _) in zip(first, again, strict=True):
            assert torch.equal(inputs, same)
            assert torch.equal(inputs + 1, targets)
            assert torch.equal(inputs - inputs[:, :1], torch.arange(4).expand(2, 4))
            seen |= set(inputs[:, 0].tolist())
    assert seen == set(range(22))  # the last window ends with the text


def test_ids_follow_frequency() -> None:
    assert encoded("abacabad").tolist() == [0, 1, 0, 2, 0, 1, 0, 3]


def test_rare_characters_share_the_last_id() -> None:
    text = "".join(chr(200 + n) * (100 - n) for n in range(90))
    ids = encoded(text)
    assert ids.max() == 82
    assert int((ids == 82).sum()) == sum(100 - n for n in range(82, 90))
    with pytest.raises(CockpitError, match="90 different characters, the benchmark's copy 83"):
        encoded(text, strict=True)
    assert encoded(text[: -sum(100 - n for n in range(83, 90))], strict=True).max() == 82


def text_of(splits_part: Batches | None) -> Tensor:
    assert isinstance(splits_part, Columns | Windows)
    return splits_part.ids


@pytest.mark.parametrize("characters", [1000, 1001, 1004])
def test_splits(characters: int, tmp_path: Path) -> None:
    text = "".join(chr(97 + (n * n) % 23) for n in range(characters))
    place = put(tmp_path, "wp.txt", text)
    whole, splits = encoded(text), tolstoi(place, Variant())
    assert torch.equal(torch.cat([text_of(p) for p in (splits.valid, splits.train, splits.test)]), whole)
    assert len(text_of(splits.test)) == len(text_of(splits.valid)) == characters // 5
    assert len(splits.train_eval) == len(splits.test)
    everything = tolstoi(place, Variant(validation=False))
    assert everything.valid is None
    assert torch.equal(torch.cat([text_of(everything.train), text_of(everything.test)]), whole)
    windows = war_and_peace_windows(place, Variant(), 10)
    assert torch.equal(text_of(windows.train), text_of(splits.train))
    assert next(windows.train.epoch(5))[0].shape == (5, 10)


def test_the_training_loss_may_be_judged_on_all_of_the_text(tmp_path: Path) -> None:
    place = put(tmp_path, "wp.txt", "".join(chr(97 + (n * n) % 23) for n in range(1000)))
    splits = tolstoi(place, Variant(validation=False, whole_eval=True))
    assert torch.equal(text_of(splits.train_eval), text_of(splits.train))
    assert splits.train_eval.steps(2) == 7 > tolstoi(place, Variant(validation=False)).train_eval.steps(2)


@pytest.mark.parametrize(("characters", "train", "held"), [(3_266_185, 783, 261), (3_266_189, 783, 261)])
def test_official_sizes(characters: int, train: int, held: int) -> None:
    test = characters - -(-4 * characters // 5)
    assert test == 653_237
    assert Columns(torch.empty(characters - 2 * test, device="meta")).steps(50) == train
    assert Columns(torch.empty(test, device="meta")).steps(50) == held
    assert Columns(torch.empty(characters - test, device="meta")).steps(50) == 1045


def test_lines_are_removed_one_after_the_other(tmp_path: Path) -> None:
    lines = [f"{number}\r" for number in range(1, 65_001)]  # line ends stay as they are
    kept = book(put(tmp_path, "war-and-peace.txt", "\n".join(lines))).split("\n")
    after_first = lines[29:]
    after_second = after_first[:4] + after_first[775:]
    assert kept == after_second[:63_849] + after_second[64_207:]
    assert kept[:5] == ["30\r", "31\r", "32\r", "33\r", "805\r"]


def test_a_book_between_marks(tmp_path: Path) -> None:
    text = "preface\n*** START OF THE BOOK ***\nWell,\x0cPrince\n*** END OF THE BOOK ***\nlicence"
    assert book(put(tmp_path, "2600-0.txt", text)) == "Well,\x0cPrince"


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("war-and-peace.txt", "only\nthree\nlines", "its 3 lines are not"),
        ("pg2600.txt", "no marks", "has no lines"),
        ("wp.txt", "", "holds 0 characters"),
    ],
)
def test_wrong_books(name: str, text: str, fact: str, tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match=fact):
        book(put(tmp_path, name, text))


def test_other_encodings(tmp_path: Path) -> None:
    assert book(put(tmp_path, "wp.txt", "Hélène", "latin-1")) == "Hélène"
    assert book(put(tmp_path, "wp.txt", "Hélène", "utf-8-sig")) == "Hélène"


def test_vocabulary_and_sample(tmp_path: Path) -> None:
    write_sample("tolstoi", tmp_path)
    place = Place(tmp_path, download=False)
    known, text = vocabulary(place), book(place)
    counts = [text.count(character) for character in known]
    assert counts == sorted(counts, reverse=True)
    assert set(known) == set(text)
    assert next(tolstoi(place, Variant()).train.epoch(50))[0].shape == (50, 50)


def test_wrong_length(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="length of a window is 0"):
        war_and_peace_windows(put(tmp_path, "wp.txt", "abc"), Variant(), 0)
