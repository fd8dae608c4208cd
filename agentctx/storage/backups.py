"""What is known of backups: what one holds, the record of the last that was verified, which are kept."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from agentctx.times import compact_time

RECORD_NAME: Final = "last-backup.json"
"""In the data folder."""
_NAME: Final = re.compile(r"agentctx-\d{8}T\d{9}Z\.db")
_LEFT: Final = re.compile(rf"({_NAME.pattern})\.partial(-journal)?")
"""What a backup is until it is verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A verified copy of the database: everything that had been committed when the copy ended."""

    path: str
    made: int
    """Milliseconds since the epoch."""
    bytes: int
    schema: int
    """Version of the newest migration in it."""
    entries: int
    """Live entries."""
    versions: int
    """Of all entries, the live ones included."""
    vectors: int
    digest: str
    """SHA-256 over the file, as `sha256sum` gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRecord:
    """How the last backups went. `failed` is when one failed after the last verified one, `problem` why.

    A failure to write a named file is not kept: the caller got the error.
    """

    last: Backup | None = None
    failed: int | None = None
    problem: str = ""


def read_record(data_dir: Path) -> BackupRecord:
    """The record of a data folder; an empty one where there is none.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not valid.
    """
    try:
        value = json.loads((data_dir / RECORD_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return BackupRecord()
    try:
        last = value.pop("last")
        return BackupRecord(**value, last=Backup(**last) if last else None)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{RECORD_NAME} is not a record of backups") from error


def record_success(data_dir: Path, backup: Backup) -> None:
    """Raises OSError when it cannot be written."""
    _write(data_dir / RECORD_NAME, BackupRecord(last=backup))


def record_failure(data_dir: Path, problem: str, now: int) -> None:
    """Keep what was known, and that a backup failed since. Raises as `read_record`."""
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
    """The default file of a backup: `agentctx-20261122T053000000Z.db`; names ascend with time."""
    return f"agentctx-{compact_time(made)}.db"


def superseded(names: Iterable[str], *, keep: int, verified: str | None) -> list[str]:
    """Which files of a folder of backups may go: all but the newest `keep`, and never the last verified one.

    So may what was left of backups before that one when they were killed. Files with other names than
    `scheduled_name` gives are not ours and stay.
    """
    names = list(names)
    ours = sorted((name for name in names if _NAME.fullmatch(name)), reverse=True)
    left = [name for name in names if (match := _LEFT.fullmatch(name)) and match[1] < (verified or "")]
    return [*(name for name in ours[keep:] if name != verified), *left]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was restored, and where the database that was there before is now; None when there was none."""

    backup: Backup
    database: str
    kept: str | None
    newest_schema: int
    """To which the next start brings it."""
    damaged: int | None
    """Entries of the backup that do not match their checksums; None where it is of an earlier schema."""


class BackupStorage(Protocol):
    """Backups of an open database."""

    async def write(self, target: Path) -> Backup:
        """Write a verified copy of everything into a file; what is saved until it is written is in it.

        A file that was there is replaced at the end, in one step. One backup or check runs at a time.

        Raises:
            InvalidInput: not an absolute path, or a file that exists and is not a backup.
            StorageFull, StorageFailed: what was there stays.
        """
        ...
