"""Backups: their description, the record of the last one, and which files to keep."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from agentctx.config.bounded_files import read_bounded
from agentctx.times import compact_time

RECORD_NAME: Final = "last-backup.json"
"""Name of the record's file in the data folder."""
_NAME: Final = re.compile(r"agentctx-\d{8}T\d{9}Z\.db")
_LEFT: Final = re.compile(rf"({_NAME.pattern})\.partial(-journal)?")
"""Names of backups not verified yet, left behind if the daemon was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A verified copy of the database, with everything committed until the copy ended."""

    path: str
    made: int
    """Time of the backup in milliseconds since the epoch."""
    bytes: int
    schema: int
    """Version of the newest migration in the backup."""
    entries: int
    """Live entries."""
    versions: int
    """Versions of all entries, including the live ones."""
    vectors: int
    digest: str
    """SHA-256 of the file, as printed by `sha256sum`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRecord:
    """The last verified backup; `failed` is the time of a failure since then, `problem` its reason.

    A failure to write to a path from the caller is not recorded, because the caller gets the error.
    """

    last: Backup | None = None
    failed: int | None = None
    problem: str = ""


def read_record(data_dir: Path) -> BackupRecord:
    """Read the record of a data folder; empty if there is none.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not valid.
    """
    try:
        value = json.loads(read_bounded(data_dir / RECORD_NAME))
    except FileNotFoundError:
        return BackupRecord()
    try:
        last = value.pop("last")
        return BackupRecord(**value, last=Backup(**last) if last else None)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{RECORD_NAME} is not a record of backups") from error


def record_success(data_dir: Path, backup: Backup) -> None:
    """Record a verified backup. Raises OSError if the file cannot be written."""
    _write(data_dir / RECORD_NAME, BackupRecord(last=backup))


def record_failure(data_dir: Path, problem: str, now: int) -> None:
    """Record a failure, keeping the last backup. Raises the errors of `read_record`."""
    known = read_record(data_dir)
    _write(data_dir / RECORD_NAME, replace(known, failed=now, problem=problem))


def _write(path: Path, record: BackupRecord) -> None:
    new = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(record), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def scheduled_name(made: int) -> str:
    """Return the default file name of a backup: `agentctx-20261122T053000000Z.db`; names sort by time."""
    return f"agentctx-{compact_time(made)}.db"


def superseded(names: Iterable[str], *, keep: int, verified: str | None) -> list[str]:
    """Return the backups that are no longer needed: all but the newest `keep` and the last verified one.

    This includes leftovers of earlier, interrupted backups. Files not named by `scheduled_name` are not ours
    and stay.
    """
    names = list(names)
    ours = sorted((name for name in names if _NAME.fullmatch(name)), reverse=True)
    left = [name for name in names if (match := _LEFT.fullmatch(name)) and match[1] < (verified or "")]
    return [*(name for name in ours[keep:] if name != verified), *left]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredBackup:
    """The result of a restore. `kept` is the path of the replaced database; None if there was none."""

    backup: Backup
    database: str
    kept: str | None
    newest_schema: int
    """Schema version to which the next start upgrades the database."""
    damaged: int | None
    """Number of entries that do not match their checksums; None if the backup has an older schema."""
