"""A training in a process of its own: writes a frame at every line it reads, and says when."""

import sys
import time
from pathlib import Path

from tests.dashboard.runs import frame

from cockpit import store

if __name__ == "__main__":
    writer = store.create(Path(sys.argv[1]), {"name": "live", "steps": 1000})
    for step, line in enumerate(sys.stdin):
        if line.strip() == "crash":
            writer.close("crashed", "ValueError: loss is NaN")
            break
        writer.append(frame(step))
        writer.step = step
        print(time.time(), flush=True)
    else:
        writer.close()
