"""Backups: their description, the automatic ones in a folder, and which of them to keep."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from agentctx.times import compact_time

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
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


@dataclass(frozen=True, slots=True, order=True)
class AutomaticBackup:
    """A verified backup in the backup folder, with what was committed until `made`, in milliseconds."""

    made: int
    path: Path


def automatic_backups(folder: Path, *, unfinished_at: int | None = None) -> list[AutomaticBackup]:
    """Return the automatic backups in a folder, oldest first; none if it cannot be read. Blocks.

    With a time, the unfinished ones are included, as if they were made then.
    """
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return []
    times = {name: made for name in names if (made := _made(name)) is not None}
    if unfinished_at is not None:
        times |= {name: unfinished_at for name in names if _LEFT.fullmatch(name) and name.endswith("partial")}
    return sorted(AutomaticBackup(made, folder / name) for name, made in times.items())


def _made(name: str) -> int | None:
    """Return the time in the name of an automatic backup, or None for another file."""
    if not _NAME.fullmatch(name):
        return None
    try:
        moment = datetime.strptime(name, "agentctx-%Y%m%dT%H%M%S%fZ.db").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (moment - _EPOCH) // _MILLISECOND


def scheduled_name(made: int) -> str:
    """Return the default file name of a backup: `agentctx-20261122T053000000Z.db`; names sort by time."""
    return f"agentctx-{compact_time(made)}.db"


def superseded(names: Iterable[str], *, keep: int, verified: str) -> list[str]:
    """Return the backups that are no longer needed: all but the newest `keep` and the last verified one.

    This includes leftovers of earlier, interrupted backups. Files not named by `scheduled_name` are not ours
    and stay.
    """
    names = list(names)
    ours = sorted((name for name in names if _NAME.fullmatch(name)), reverse=True)
    left = [name for name in names if (match := _LEFT.fullmatch(name)) and match[1] < verified]
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
