"""Send the columns of a factor back through a network, by rules of ours, and add up the squares of what arrives."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

from torch import Tensor

from cockpit.engine.autograd.graph import Node, Path, family
from cockpit.engine.branches import beside, meet
from cockpit.engine.double_backward import Vectors
from cockpit.engine.factors import Columns
from cockpit.engine.placement import Placements
from cockpit.engine.sending import Part, Sender, Step
from cockpit.engine.squares import Squares

SHARE = {"cpu": 0.25}  # of the memory of the network's results that columns may take; a cache is small
SHARE_ELSEWHERE = 0.5
LEAST = 2**24  # bytes
LEAST_ELSEWHERE = 2**26  # all columns of a small net at once: two passes take a tenth longer on an H200


class ColumnPass:
    """From the network's outputs to the operations that use a parameter."""

    def __init__(
        self,
        paths: Sequence[Path],
        placed: Placements,
        columns: Columns,
        parameters: Mapping[str, Tensor],
        looped: set[str],
    ) -> None:
        self._paths, self._placed, self._parameters = paths, placed, parameters
        self.wanted = list(dict.fromkeys(path.node for path in paths))
        self.sender = Sender([(target.node, target.output) for target in columns.targets], self.wanted, looped)
        results = (meta for step in self.sender.steps for meta in step.node._input_metadata)
        kind, size = columns.blocks.device.type, sum(prod(meta.shape) * meta.dtype.itemsize for meta in results)
        least = LEAST if kind in SHARE else LEAST_ELSEWHERE
        self._room = max(least, int(SHARE.get(kind, SHARE_ELSEWHERE) * size))

    def squares(self) -> Squares:
        """To be filled; what is made at a time is a part of what the network's results take."""
        return Squares(self._parameters, self._paths, self._placed, self._room)

    def diagonal(self, columns: Columns) -> Vectors:
        """The squares of all columns, summed."""
        total = self.squares()
        step, samples = self._at_once(columns, total)
        for begin in range(0, len(columns), step):
            end = min(begin + step, len(columns))
            self.add(total, columns, columns.rows(begin, end), columns.signs_of(begin, end), samples)
        return total.sums()

    def add(self, total: Squares, columns: Columns, rows: Tensor, signs: Tensor | None, samples: int) -> None:
        """Add the squares of some columns, so many samples at a time."""
        seeds = columns.seeds(rows)
        for part in parts_of(columns.samples, samples):
            total.begin(signs, part)
            for node, grads in self.sender([part.of(seed, 1) for seed in seeds], self._room, part):
                beside(partial(total.add, node, grads), grads)
            meet()
            total.end()

    def _at_once(self, columns: Columns, total: Squares) -> tuple[int, int]:
        """Columns and samples that are sent at once: gradients at one operation stay within the room."""
        sender, room, samples = self.sender, self._room, columns.samples
        most = room // largest(sender.steps)  # columns of all samples
        if most >= len(columns) or not (sender.divisible and total.divisible and outermost(columns)):
            return even(len(columns), most), samples
        fits = room * samples // largest(sender.steps)  # columns of one sample
        step = even(len(columns), fits)
        return step, even(samples, fits // step)


def largest(steps: Sequence[Step]) -> int:
    """Bytes of the largest gradient of one column; those that max-pooling sends are kept without their zeros."""
    scattered: dict[Node, int] = {}
    found = 1
    for step in steps:
        meta, kind = step.node._input_metadata[0], family(step.node)
        own = scattered.get(step.node, prod(meta.shape) * meta.dtype.itemsize)
        found = max(found, own)
        if kind == "MaxPool2DWithIndicesBackward" or (kind == "ReluBackward" and step.node in scattered):
            scattered.update({place[0]: own for _, place in step.operands})
    return found


def even(count: int, most: int) -> int:
    """The size of pieces of nearly the same size, at most ``most`` each."""
    pieces = -(-count // max(1, most))
    return max(1, -(-count // max(1, pieces)))


def parts_of(samples: int, most: int) -> list[Part]:
    """All samples, at most so many at a time."""
    return [Part(begin, min(begin + most, samples), samples) for begin in range(0, samples, most)]


def outermost(columns: Columns) -> bool:
    """Whether each sample lies in one piece where columns begin."""
    return all(t.layout.samples * t.layout.inner == prod(t.shape) for t in columns.targets)
