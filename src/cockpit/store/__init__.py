"""Where records live: a folder for each run, written by the training, read by anybody at the same time."""

from cockpit.store.label import hide, rename
from cockpit.store.listing import RunInfo, runs
from cockpit.store.removal import delete
from cockpit.store.run import StoredRun
from cockpit.store.writer import Writer, create

__all__ = ["RunInfo", "StoredRun", "Writer", "create", "delete", "hide", "rename", "runs"]
