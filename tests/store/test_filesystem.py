from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.core.errors import CockpitError
from cockpit.store import StoredRun, create, filesystem

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw shared:2 - nfs4 server:/home rw
31 30 8:2 / /home/local\\040disk rw - xfs /dev/sdb rw
32 22 0:50 / /mnt rw - fuse.sshfs me@there: rw
33 22 0:51 / /lustre rw - lustre mds:/scratch rw
34 22 0:52 / /layers rw - overlay overlay rw
35 33 0:53 / /lustre/fast rw - tmpfs tmpfs rw
"""


@pytest.fixture(autouse=True)
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "mountinfo")
    monkeypatch.delenv("COCKPIT_STORE", raising=False)


@pytest.mark.parametrize(
    ("folder", "kind", "backend"),
    [
        ("/data/runs", "ext4", "sqlite"),
        ("/home/me/runs", "nfs4", "file"),
        ("/homestead", "ext4", "sqlite"),
        ("/home/local disk/runs", "xfs", "sqlite"),
        ("/mnt/runs", "fuse.sshfs", "file"),
        ("/lustre/runs", "lustre", "file"),
        ("/lustre/fast/runs", "tmpfs", "sqlite"),
        ("/layers/a", "overlay", "sqlite"),
    ],
)
def test_the_mount_decides(folder: str, kind: str, backend: str) -> None:
    assert filesystem.kind(Path(folder)) == kind
    assert filesystem.choose(Path(folder)) == backend


def test_the_user_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_STORE", "file")
    assert filesystem.choose(Path("/data")) == "file"
    monkeypatch.setenv("COCKPIT_STORE", "duckdb")
    with pytest.raises(CockpitError, match="COCKPIT_STORE is 'duckdb'; set it to 'sqlite' or 'file'"):
        filesystem.choose(Path("/data"))


def test_without_a_mount_table_the_disk_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "MOUNTS", Path("/nowhere"))
    assert filesystem.choose(Path("/home/me")) == "sqlite"


def test_a_run_on_a_network_disk_is_a_framed_file(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(f"1 1 0:1 / {tmp_path.resolve()} rw - nfs server:/ rw\n")
    create(tmp_path / "run", {"git": None}).close()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["run.frames", "run.lock"]
    assert StoredRun(tmp_path / "run").state == "finished"
