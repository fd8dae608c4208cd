"""What the daemon uses of this package: `agentctx.storage.base.ServerEngine`."""

from __future__ import annotations

from typing import Final

from agentctx.config.schema import Settings
from agentctx.storage.base import ServerSchema, Storage
from agentctx.times import Clock
from agentctx_postgresql import engine
from agentctx_postgresql.driver import Server, password_of

MIN_READERS: Final = 8
"""Minimum number of read connections: they wait for replies, so more than cores help."""


async def open_storage(settings: Settings, *, daemon: str, clock: Clock, migrates: bool) -> Storage:
    return await engine.PostgresqlStorage.open(
        _server(settings),
        daemon=daemon,
        readers=max(settings.storage.readers, MIN_READERS),
        clock=clock,
        idempotency_hours=settings.storage.idempotency_hours,
        max_versions=settings.limits.max_versions,
        migrates=migrates,
    )


async def update_schema(settings: Settings, *, applies: bool) -> ServerSchema:
    return await engine.update_schema(_server(settings), applies=applies)


def migrate_to(settings: Settings, to: str, *, dry_run: bool, as_json: bool) -> bool:
    # The command line, which a daemon does not need.
    from agentctx.cli.output import show
    from agentctx_postgresql.migrate_to import copy_to, report_lines

    report = copy_to(settings, to, dry_run=dry_run)
    show(report, report_lines(report), as_json)
    return report.is_whole


def _server(settings: Settings) -> Server:
    return Server(
        url=settings.storage.url,
        password=password_of(settings.storage),
        is_pooled=settings.storage.pooler == "transaction",
    )
