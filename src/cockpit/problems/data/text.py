"""War and Peace, character by character."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batch, Place, Splits, Variant
from cockpit.problems.data.batches import complete
from cockpit.problems.data.fetch import File, broken, fetch
from cockpit.problems.data.splits import train_eval

VOCABULARY = 83  # characters of the benchmark's copy; in a richer one the rarest share the last id
LENGTH = 50  # characters in a sequence
READY = ("war_and_peace.txt", "wp.txt")  # the book alone
BOOK = File(
    "war-and-peace.txt",
    "https://github.com/AllenDowney/fluent-python-notebooks/raw/master/attic/sequences/war-and-peace.txt",
    also=(*READY, "2600-0.txt", "pg2600.txt"),
)
REMOVED = ((1, 29), (5, 775), (63_850, 64_207))  # lines of the benchmark's copy, one after the other: all but the book


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is cut into sequences of one length."""

    ids: Tensor  # [number of characters]
    length: int = LENGTH

    def __len__(self) -> int:
        """Number of sequences that fit without overlap."""
        return max(0, len(self.ids) - 1) // self.length

    def steps(self, batch_size: int) -> int:
        """Number of complete batches; the rest is left out."""
        return complete(len(self), batch_size)

    def to(self, device: torch.device | str) -> Self:
        """Return the text on another device."""
        return replace(self, ids=self.ids.to(device))


class Columns(Text):
    """A text laid out in as many parallel rows as a batch has; batch k are its k-th columns. Never shuffled.

    The rows of a batch go on where those of the batch before ended, so that a model can keep its state.
    """

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """Sequences [B, length] and the same shifted by one character; generators change nothing."""
        steps = self.steps(batch_size)
        used = steps * batch_size * self.length
        if not steps:
            return
        inputs, targets = (self.ids[shift : shift + used].reshape(batch_size, -1) for shift in (0, 1))
        for columns in zip(inputs.split(self.length, dim=1), targets.split(self.length, dim=1), strict=True):
            yield columns[0].long(), columns[1].long()


class Windows(Text):
    """Pieces of a text: with a generator as many as fit, beginning anywhere; else one after the other."""

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """Pieces [B, length] and the same shifted by one character."""
        steps = self.steps(batch_size)
        if not steps:
            return
        drawn = shuffle or generator
        if drawn is None:
            starts = self.length * torch.arange(steps * batch_size).reshape(steps, batch_size)
        else:
            starts = torch.randint(len(self.ids) - self.length, (steps, batch_size), generator=drawn)
        places = torch.arange(self.length + 1, device=self.ids.device)
        for begin in starts.to(self.ids.device):
            piece = self.ids[begin[:, None] + places].long()
            yield piece[:, :-1], piece[:, 1:]


def book(place: Place) -> str:
    """The text of the novel, line ends as they are in the file; a file of a ready name is taken as it is."""
    (path,) = fetch(place, "tolstoi", [BOOK])
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    if path.name not in READY:
        text = without_lines(text, path) if path.name == BOOK.name else between_marks(text, path)
    if len(text) < 2:
        raise broken(path, f"it holds {len(text)} characters")
    return text


def without_lines(text: str, path: Path) -> str:
    """The benchmark's copy without what is not the book."""
    lines = text.split("\n")
    if len(lines) < REMOVED[2][0]:
        fact = f"its {len(lines)} lines are not those of the benchmark's copy (call a book without preface {READY[0]})"
        raise broken(path, fact)
    for first, last in REMOVED:
        del lines[first - 1 : last]
    return "\n".join(lines)


def between_marks(text: str, path: Path) -> str:
    """What is between the marks by which Project Gutenberg begins and ends a book."""
    lines = text.split("\n")
    marks = [[n for n, line in enumerate(lines) if line.startswith(f"*** {word} OF")] for word in ("START", "END")]
    if not all(marks):
        raise broken(path, "it has no lines '*** START OF' and '*** END OF'")
    return "\n".join(lines[marks[0][0] + 1 : marks[1][-1]])


def by_frequency(text: str) -> str:
    """The characters of a text, frequent ones first."""
    return "".join(sorted(counts := Counter(text), key=lambda character: (-counts[character], character)))


def vocabulary(place: Place) -> str:
    """The characters of the book, frequent ones first; copies differ by a few rare ones."""
    return by_frequency(book(place))


def encoded(text: str, strict: bool = False) -> Tensor:
    """Ids of characters, the rank of each by frequency, below 83."""
    known = by_frequency(text)
    if strict and len(known) != VOCABULARY:
        raise CockpitError(f"the text has {len(known)} different characters, the benchmark's copy {VOCABULARY}; use it")
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    ids = np.zeros(max(map(ord, known)) + 1, np.uint8)
    ids[[ord(character) for character in known]] = np.arange(len(known)).clip(max=VOCABULARY - 1)
    return torch.from_numpy(ids[points])


def parts(place: Place, variant: Variant, strict: bool) -> tuple[Tensor, Tensor | None, Tensor]:
    """Ids for training, validation, test: the last fifth is test; as much at the beginning is held out."""
    ids = encoded(book(place), strict)
    first = -(-len(ids) * 4 // 5)  # rounded up
    test = ids[first:]
    if not variant.validation:
        return ids[:first], None, test
    return ids[len(test) : first], ids[: len(test)], test


def tolstoi(place: Place, variant: Variant, strict: bool = False) -> Splits:
    """War and Peace in sequences of 50 characters that go on from batch to batch.

    Args:
        place: Where the book is.
        variant: What is held out, and whether the training loss is judged on all that is trained on.
        strict: Whether a copy without exactly 83 different characters is an error.
    """
    train, valid, test = parts(place, variant, strict)
    trained, tested = Columns(train), Columns(test)
    judged = trained if variant.whole_eval else train_eval(trained, tested)
    return Splits(trained, judged, None if valid is None else Columns(valid), tested)


def war_and_peace_windows(place: Place, variant: Variant, length: int = 128) -> Splits:
    """War and Peace in pieces of some characters, for training taken from anywhere."""
    if length < 1:
        raise CockpitError(f"the length of a window is {length}; give at least 1")
    train, valid, test = parts(place, variant, strict=False)
    trained, tested = Windows(train, length), Windows(test, length)
    return Splits(trained, train_eval(trained, tested), None if valid is None else Windows(valid, length), tested)
