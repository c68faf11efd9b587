"""How much of the machine other programs took while something was measured."""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
BUSY = 0.15  # share of all cores above which a measurement is not trusted


class Others:
    """The share of all cores that other programs have used since this was made; None where it is not known."""

    def __init__(self) -> None:
        self._begin, self._used = time.perf_counter(), self._used_by_others()

    def share(self) -> float | None:
        """From 0 to 1."""
        used, seconds = self._used_by_others(), time.perf_counter() - self._begin
        if used is None or self._used is None or not seconds:
            return None
        return max(0.0, round((used - self._used) / seconds / (os.cpu_count() or 1), 3))

    @staticmethod
    def _used_by_others() -> float | None:
        """Seconds of all cores that were neither idle nor this program's, nor its finished children's."""
        try:
            user, nice, system, _, _, irq, softirq, steal, *_ = map(int, STAT.read_text().split("\n")[0].split()[1:])
        except (OSError, ValueError):
            return None
        everyone = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return everyone - sum(os.times()[:4])


def wait(patience: float) -> None:
    """Return as soon as the machine is quiet, or after ``patience`` seconds."""
    end = time.perf_counter() + patience
    while time.perf_counter() < end:
        others = Others()
        time.sleep(1)
        if (others.share() or 0) < BUSY / 3:
            return
