"""A run as it was at an earlier step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.source import Parts, Series, Source, Steps, Values


@dataclass(frozen=True)
class Until:
    """A :class:`~cockpit.core.source.Source` without what was recorded after ``step``."""

    source: Source
    step: int

    @property
    def name(self) -> str:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.name

    @property
    def metadata(self) -> Mapping[str, Any]:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.metadata

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """See :class:`~cockpit.core.source.Source`; also what appears later, so that nothing moves when it does."""
        return self.source.kinds

    def scalar(self, name: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        return self._cut(self.source.scalar(name))

    def parts(self, name: str) -> Parts:
        """See :class:`~cockpit.core.source.Source`."""
        parts = self.source.parts(name)
        end = self._end(parts.steps)
        return Parts(parts.steps[:end], parts.keys, parts.values[:end])

    def detail(self, name: str, key: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        return self._cut(self.source.detail(name, key))

    def constant(self, name: str, key: str) -> str | None:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.constant(name, key)

    def counted(self, name: str) -> Steps:
        """See :class:`~cockpit.core.source.Source`."""
        counted = self.source.counted(name)
        return counted[: self._end(counted)]

    def histogram(self, name: str, step: int) -> Histogram:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.histogram(name, step)

    def samples(self, name: str, step: int) -> Values:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.samples(name, step)

    def reasons(self, name: str) -> Mapping[str, list[int]]:
        """See :class:`~cockpit.core.source.Source`."""
        kept = {reason: [s for s in steps if s <= self.step] for reason, steps in self.source.reasons(name).items()}
        return {reason: steps for reason, steps in kept.items() if steps}

    def _cut(self, series: Series) -> Series:
        end = self._end(series.steps)
        return Series(series.steps[:end], series.values[:end])

    def _end(self, steps: Steps) -> int:
        return int(steps.searchsorted(self.step, side="right"))
