from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.doctor.check import run_checks
from agentctx.doctor.disk import filesystem_of, judge_filesystem, judge_space
from tests.doctor.contexts import machine
from tests.live_files import vanishes_when_looked_at

MB, GB = 10**6, 10**9
MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /home rw - nfs4 server:/home rw
41 40 0:36 / /home/me/local\\040disk rw - xfs /dev/sdb rw
50 22 0:40 / /tmp rw - tmpfs tmpfs rw
51 22 0:41 / /tmp rw - ext4 /dev/sdc rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home/me/.local/share", "nfs4"),
        ("/home/me/local disk/data", "xfs"),
        ("/homes", "ext4"),
        ("/tmp/x", "ext4"),
        ("/", "ext4"),
    ],
)
def test_the_deepest_and_last_mount_counts(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == kind


@given(st.text())
def test_any_text_is_read(mounts: str) -> None:
    filesystem_of(Path("/var/lib"), mounts)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("ext4", "pass"),
        ("nfs4", "fail"),
        ("fuse.sshfs", "fail"),
        ("9p", "warn"),
        ("tmpfs", "warn"),
        (None, "skip"),
    ],
)
def test_the_kind_of_disk(kind: str | None, status: str) -> None:
    assert judge_filesystem(kind).status == status


@pytest.mark.parametrize(
    ("free", "used", "status"),
    [(10 * MB, 0, "fail"), (500 * MB, 0, "warn"), (5 * GB, 6 * GB, "warn"), (5 * GB, 1 * GB, "pass")],
)
def test_room(free: int, used: int, status: str) -> None:
    assert judge_space(free, used).status == status


async def test_a_file_that_the_daemon_removes_meanwhile_takes_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agentctx.db-wal").touch()
    vanishes_when_looked_at("agentctx.db-wal", monkeypatch)
    (space,) = await run_checks(["files.space"], machine(data_dir=tmp_path))
    assert "free" in space.message


async def test_a_missing_folder_counts_to_its_parents_disk(tmp_path: Path) -> None:
    missing, there = [
        await run_checks(["files.space", "files.filesystem"], machine(data_dir=folder))
        for folder in (tmp_path / "a" / "b", tmp_path)
    ]
    assert missing[-1].message == there[-1].message
    assert "free" in missing[0].message
