"""Checks that the disk has free space and a file system suited to a database."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Machine
from agentctx.wire.wording import size

MIN_FREE = 64 * 1024 * 1024
"""With less the daemon soon cannot even empty its WAL."""
LITTLE_FREE = 1024 * 1024 * 1024
MOUNTS = Path("/proc/self/mountinfo")

NETWORK = frozenset(
    {"afs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.gcsfuse"}
)
SHARED_WITH_HOST = frozenset({"9p", "virtiofs", "vboxsf", "fuse.vmhgfs-fuse", "fuse.osxfs", "fuse.grpcfuse"})
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


@check(Machine, "files.space")
def check_space(machine: Machine) -> Finding:
    """Judge the disk of the data folder, or of the nearest existing folder above it."""
    folder = machine.folder
    is_open = folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)
    used = sum(map(_bytes, folder.iterdir())) if is_open else 0
    return judge_space(shutil.disk_usage(_nearest(folder)).free, used)


def judge_space(free: int, used: int) -> Finding:
    """Judge the bytes that this user may still write, and the bytes that the data folder uses."""
    left = f"{size(free)} free"
    if free < MIN_FREE:
        return failed(f"{left}: saving will fail soon", hint="Free disk space; saving resumes automatically.")
    if free < max(LITTLE_FREE, used):
        return warned(
            f"{left}, {size(used)} used by agentctx",
            hint="Free disk space: a backup needs as much as the database has.",
        )
    return passed(left)


def _bytes(path: Path) -> int:
    """Return the file's size, or 0 if a running daemon removed it meanwhile, as SQLite does with the WAL."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


@check(Machine, "files.filesystem")
def check_filesystem(machine: Machine) -> Finding:
    folder = machine.folder
    if not MOUNTS.exists():
        return skipped(f"{sys.platform} does not report the type of this disk")
    mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    return judge_filesystem(filesystem_of(_nearest(folder).resolve(), mounts))


def judge_filesystem(filesystem: str | None) -> Finding:
    """Judge the file system; `filesystem` is its name in the kernel: `ext4`, `nfs4` …"""
    if filesystem is None:
        return skipped("unknown file system")
    if filesystem in NETWORK:
        return failed(
            f"the data folder is on {filesystem}, a network file system: SQLite can lose data there",
            hint="Move the data folder to a local disk, and name it with data_dir or --data-dir.",
        )
    if filesystem in SHARED_WITH_HOST:
        return warned(
            f"the data folder is on {filesystem}, shared with another system: its locks may not work",
            hint="Let only one system use the folder, or move it to a local disk.",
        )
    if filesystem in IN_MEMORY:
        return warned(
            f"the data folder is on {filesystem}: everything saved is gone after a restart of the machine",
            hint="Move the data folder to a disk, and name it with data_dir or --data-dir.",
        )
    return passed(f"{filesystem}, a local disk")


def filesystem_of(path: Path, mounts: str) -> str | None:
    """Return the file system type of an absolute path, from text in the format of `/proc/self/mountinfo`.

    The deepest mount that contains the path counts, and of several mounts at one place the last.
    """
    deepest: tuple[int, str] | None = None
    for line in mounts.splitlines():
        mount, filesystem = _mount(line)
        if filesystem and (path == mount or mount in path.parents):
            depth = len(mount.parts)
            if deepest is None or depth >= deepest[0]:
                deepest = depth, filesystem
    return deepest[1] if deepest else None


def _mount(line: str) -> tuple[Path, str]:
    """Return mount point and type of `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw`."""
    before, _, after = line.partition(" - ")
    fields, filesystem = before.split(" "), after.split(" ")[0]
    if len(fields) < 5:
        return Path("/"), ""
    return Path(re.sub(r"\\([0-7]{3})", lambda escape: chr(int(escape[1], 8)), fields[4])), filesystem


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest existing one above it."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())
