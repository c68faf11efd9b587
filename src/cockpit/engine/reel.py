"""Packed results of consecutive steps, one row each, on the device until they are fetched together in one copy.

Starting a copy takes the host as long as a small layer does, and nobody looks at a step before some more have passed.
"""

import torch
from torch import Tensor

from cockpit.engine.numbers import Harbour, Manifest, Parcel, Values

ROWS = 64
MOST = 2**23  # bytes


class Reel:
    """Rows that are filled one after the other by a recording, and begin anew when all are filled.

    Host and device count for themselves which row is next; after a step that was interrupted, the host's count holds.
    """

    def __init__(self, packed: Tensor, manifest: Manifest, harbour: Harbour) -> None:
        count = max(1, min(ROWS, MOST // max(1, packed.nbytes)))
        self._rows = packed.new_zeros(count, packed.numel())
        self._place = torch.zeros(1, dtype=torch.int64, device=packed.device)
        self._manifest, self._harbour = manifest, harbour
        self._filled = 0  # rows since the reel began anew, as the host knows
        self._under_way = False  # a row is about to be filled
        self._loose: list[Row] = []  # filled, and not fetched

    def write(self, packed: Tensor) -> None:
        """Fill the next row; recorded, so the device itself knows which one that is."""
        self._rows.index_copy_(0, self._place, packed[None])
        self._place.add_(1).remainder_(len(self._rows))

    def rewind(self) -> None:
        """Go on where the host is: what the device wrote beside belongs to no step."""
        self._place.fill_(self._filled % len(self._rows))

    def advance(self) -> "Row":
        """The row that is about to be filled; :meth:`done` when it is."""
        interrupted, self._under_way = self._under_way, True
        if self._filled == len(self._rows):  # before the first ones are filled anew
            self.fetch()
            self._filled = 0
        if interrupted:
            self.rewind()
        row = Row(self, self._filled, self._manifest)
        self._filled += 1
        self._loose.append(row)
        return row

    def done(self) -> None:
        """The row is filled."""
        self._under_way = False

    def fetch(self) -> None:
        """Start copying all rows that are not fetched yet."""
        if self._loose:
            begin, loose = self._loose[0].place, self._loose
            parcel = Parcel(self._rows[begin : self._filled].view(-1), self._manifest, self._harbour)
            for row in loose:
                row.follow(parcel, row.place - begin)
            self._loose = []


class Row:
    """One step's results on a reel; for a reader like a parcel of their own."""

    __slots__ = ("_index", "_parcel", "_read", "_reel", "manifest", "place")

    def __init__(self, reel: Reel, place: int, manifest: Manifest) -> None:
        self._reel, self.place, self.manifest = reel, place, manifest
        self._parcel: Parcel | None = None
        self._index = 0
        self._read: Values | None = None

    def follow(self, parcel: Parcel, index: int) -> None:
        """The row travels in a parcel with others."""
        self._parcel, self._index = parcel, index

    def ask(self) -> None:
        """Start the copy, if it has not been started."""
        if self._parcel is None:
            self._reel.fetch()

    @property
    def arrived(self) -> bool:
        """Whether the copy is complete."""
        return self._parcel is not None and self._parcel.arrived

    def read(self) -> Values:
        """Wait for the copy."""
        if self._read is None:
            self.ask()
            assert self._parcel is not None
            begin = self._index * self.manifest.size
            self._read = self._parcel.read()[begin : begin + self.manifest.size]
        return self._read
