"""Where a server can lose what it has acknowledged: by its settings and its standbys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentctx.storage.postgresql.driver import Connection
from agentctx.wording import counted

# A role without pg_monitor sees that a standby is connected, and not its state.
_LOOK: Final = """
SELECT current_setting('synchronous_commit'), current_setting('fsync')::bool,
  current_setting('full_page_writes')::bool, current_setting('synchronous_standby_names'),
  (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup')"""


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """What decides where a transaction is when its COMMIT returns."""

    synchronous_commit: str = "on"
    fsync: bool = True
    full_page_writes: bool = True
    synchronous_standby_names: str = ""
    standbys: int = 0
    """How many are connected."""


async def commit_settings(conn: Connection) -> CommitSettings:
    """As they are now for this connection."""
    return CommitSettings(*await conn.fetchrow(_LOOK))


def durability_warnings(settings: CommitSettings) -> tuple[str, ...]:
    """How acknowledged saves can be lost, a sentence each; empty where they cannot."""
    risks = {
        "synchronous_commit is off: a crash of the server can lose acknowledged saves.": (
            settings.synchronous_commit == "off"
        ),
        "fsync is off: a crash of the server's machine can lose acknowledged saves.": not settings.fsync,
        "full_page_writes is off: a crash of the server's machine can damage the database.": (
            not settings.full_page_writes
        ),
        "synchronous_commit is local: a failover can lose acknowledged saves.": (
            settings.synchronous_commit == "local" and settings.synchronous_standby_names != ""
        ),
        f"{counted(settings.standbys, 'standby', 'standbys')} connected and synchronous_standby_names is "
        "empty: a failover can lose acknowledged saves.": (
            settings.standbys > 0 and settings.synchronous_standby_names == ""
        ),
    }
    return tuple(sentence for sentence, applies in risks.items() if applies)
