"""What changed, told to every open page as it happens (server-sent events)."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping

from cockpit.dashboard.fleet import Fleet

PULSE = 0.2  # seconds between two looks at the runs
HEARTBEAT = 15.0  # seconds of silence after which a comment keeps the connection open

Marks = tuple[Mapping[str, str], Mapping[str, int], int]  # of listed runs, of open ones, of benchmark results


class Events:
    """One look at the runs serves all pages, and there is none while nobody watches."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._closing = False
        self._marks: Marks = ({}, {}, 0)
        self._looked = float("-inf")
        self._looking = asyncio.Lock()

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the ids of the runs that changed since the last message, and whether the list or the results did."""
        seen = await self._look()
        yield b"retry: 1000\n\n" + _message([], True)
        quiet = 0.0
        while not self._closing:
            await asyncio.sleep(PULSE)
            quiet += PULSE
            now = await self._look()
            changed = _changed(seen, now)
            listed = (now[0], now[2]) != (seen[0], seen[2])
            seen = now
            if changed or listed:
                yield _message(changed, listed)
            elif quiet >= HEARTBEAT:
                yield b": still here\n\n"
            else:
                continue
            quiet = 0.0

    def close(self) -> None:
        """End all streams."""
        self._closing = True

    async def _look(self) -> Marks:
        async with self._looking:
            loop = asyncio.get_running_loop()
            if loop.time() - self._looked > PULSE / 2:
                self._marks = await asyncio.to_thread(self.fleet.pulse)
                self._looked = loop.time()
            return self._marks


def _changed(seen: Marks, now: Marks) -> list[str]:
    """The runs whose marks differ.

    One that is open since the last look counts: it may have grown between the page's reading and this look. So does
    one that is gone, or came back under its old name.
    """
    found: set[str] = set()
    for before, after in ((seen[0], now[0]), (seen[1], now[1])):
        found |= {ident for ident in (*before, *after) if before.get(ident) != after.get(ident)}
    return sorted(found)


def _message(changed: list[str], listed: bool) -> bytes:
    return f"data: {json.dumps({'changed': changed, 'listed': listed})}\n\n".encode()
