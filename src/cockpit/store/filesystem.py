"""Which backend suits a folder: SQLite's write-ahead log needs memory that processes share, so a local file system."""

import os
import re
from pathlib import Path
from typing import Literal

from cockpit.core.errors import CockpitError
from cockpit.store import framed, sqlite

Backend = Literal["sqlite", "file"]
VARIABLE = "COCKPIT_STORE"
MOUNTS = Path("/proc/self/mountinfo")
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|afs|9p|virtiofs|lustre|gpfs|beegfs|ceph|gluster(fs)?|orangefs|pvfs2|panfs|davfs|"
    r"vboxsf|vmhgfs|prl_fs|fuse(\..*)?"
)


def choose(folder: Path) -> Backend:
    """What is there already, else what the user says, else what the file system allows."""
    said = wish()
    for name, backend in ((sqlite.NAME, "sqlite"), (framed.NAME, "file")):
        if (folder / name).exists():
            return backend  # type: ignore[return-value]
    return said or ("file" if on_network(folder) else "sqlite")


def wish() -> Backend | None:
    """What the user says."""
    said = os.environ.get(VARIABLE) or None
    if said not in (None, "sqlite", "file"):
        raise CockpitError(f"{VARIABLE} is {said!r}; set it to 'sqlite' or 'file', or leave it out")
    return said  # type: ignore[return-value]


def on_network(folder: Path) -> bool:
    """Whether the folder lies on a file system that other machines may write to as well."""
    if str(folder).startswith(("\\\\", "//")) and os.name == "nt":
        return True
    return NETWORK.fullmatch(kind(folder)) is not None


def kind(folder: Path) -> str:
    """Type of the file system, as the mount table has it; empty where there is no such table."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place, best, found = Path(os.path.realpath(folder)), -1, ""
    for line in lines:
        head, _, rest = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), head.split(" ")[4]))
        if place.is_relative_to(point) and len(point.parts) >= best:  # a later mount hides an earlier one
            best, found = len(point.parts), rest.split(" ")[0]
    return found
