"""What changed, told to every open page as it happens (server-sent events)."""

import asyncio
import json
from collections.abc import AsyncIterator

from cockpit.dashboard.fleet import Fleet

PULSE = 0.2  # seconds between two looks at the runs
HEARTBEAT = 15.0  # seconds of silence after which a comment keeps the connection open


class Events:
    """One look at the runs serves all pages, and there is none while nobody watches."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._closing = False
        self._marks: dict[str, str] = {}
        self._looked = float("-inf")
        self._looking = asyncio.Lock()

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the ids of the runs that changed since the last message."""
        seen = await self._look()
        yield b"retry: 1000\n\n" + _message([])
        quiet = 0.0
        while not self._closing:
            await asyncio.sleep(PULSE)
            quiet += PULSE
            now = await self._look()
            changed = [ident for ident in now.keys() | seen.keys() if now.get(ident) != seen.get(ident)]
            seen = now
            if changed:
                yield _message(sorted(changed))
            elif quiet >= HEARTBEAT:
                yield b": still here\n\n"
            else:
                continue
            quiet = 0.0

    def close(self) -> None:
        """End all streams."""
        self._closing = True

    async def _look(self) -> dict[str, str]:
        async with self._looking:
            loop = asyncio.get_running_loop()
            if loop.time() - self._looked > PULSE / 2:
                self._marks = await asyncio.to_thread(self.fleet.pulse)
                self._looked = loop.time()
            return self._marks


def _message(changed: list[str]) -> bytes:
    return f"data: {json.dumps({'changed': changed})}\n\n".encode()
