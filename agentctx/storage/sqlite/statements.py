"""Follows the steps of a change on SQLite: each statement runs at once, in the writer's transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from agentctx.storage import forgetting, saving, supersession
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.readers import READ_TIMEOUT_S, Readers
from agentctx.storage.sqlite import sql
from agentctx.storage.sqlite.connections import CHECK_TIMEOUT_S, SqliteConnections
from agentctx.storage.sqlite.entries import lookup, writes
from agentctx.storage.sqlite.entries.copying import COPY_STATEMENTS
from agentctx.storage.sqlite.queue.jobs import JOB_STATEMENTS
from agentctx.storage.sqlite.trust.statements import TRUST_STATEMENTS
from agentctx.storage.sqlite.upkeep.proofs import PROOF_STATEMENTS
from agentctx.storage.sqlite.vectors.spaces import SPACE_STATEMENTS
from agentctx.storage.steps import Statement, Steps

T = TypeVar("T")

EXECUTE: Final[sql.Functions] = {
    **sql.SQL,
    **TRUST_STATEMENTS,
    **COPY_STATEMENTS,
    saving.FindLive: writes.find_live,
    forgetting.FindRow: writes.find_row,
    forgetting.FindExpired: writes.find_expired,
    forgetting.LockEntry: lambda *_: None,
    supersession.FindNamed: lookup.find_named,
    saving.InsertVersion: writes.insert_version,
    saving.ChangeInPlace: writes.change_in_place,
    forgetting.ForgetRequests: writes.forget_requests,
    forgetting.Erase: writes.erase,
    **SPACE_STATEMENTS,
    **JOB_STATEMENTS,
    **PROOF_STATEMENTS,
}
"""The function that executes each statement."""


def follow(conn: Connection, steps: Steps[T]) -> T:
    """Return the result of the steps. Runs inside the caller's transaction, which an error rolls back."""
    return sql.follow(conn, steps, EXECUTE)


def _following(steps: Callable[[], Steps[T]]) -> Callable[[Connection], T]:
    return partial(sql.follow, steps=steps, functions=EXECUTE)


class SqliteFollower:
    """`Follower` on the connections to the SQLite file."""

    def __init__(self, connections: SqliteConnections) -> None:
        self.db = connections
        self.clock = connections.clock
        self.daemon = ""
        self.notes = connections.tidying

    async def change(
        self,
        steps: Callable[[], Steps[T]],
        committed: Callable[[T], None] | None = None,
        *,
        shares_spaces: bool = False,  # noqa: ARG002 - there is one writer
    ) -> T:
        return await self.db.writer.run(_following(steps), committed=committed)

    def server_ms(self, local_ms: int) -> int:
        return local_ms

    async def look(self, steps: Callable[[], Steps[T]], *, is_long: bool = False) -> T:
        timeout_s = CHECK_TIMEOUT_S if is_long else READ_TIMEOUT_S
        return await self.db.readers.run(_following(steps), timeout_s=timeout_s)

    async def ask(self, statement: Statement[T]) -> T:
        return await self.look(lambda: iter(statement))


class SqliteFileReader:
    """`Reader` of a file that a daemon may have open.

    The file is open only during each read: a connection that stayed open would keep the daemon from
    overwriting forgotten text.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def look(self, steps: Callable[[], Steps[T]], *, is_long: bool = False) -> T:  # noqa: ARG002 - may be
        readers = await Readers.open(self._path, 1)
        try:
            return await readers.run(_following(steps), timeout_s=CHECK_TIMEOUT_S)
        finally:
            await readers.close()
