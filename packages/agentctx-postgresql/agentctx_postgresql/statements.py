"""Follows the steps of a change on PostgreSQL: one round trip for each statement, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from agentctx.storage import forgetting, saving, supersession
from agentctx.storage.steps import Statement, Steps
from agentctx_postgresql import locks, sql
from agentctx_postgresql.connections import CHECK_TIMEOUT_S, READ_TIMEOUT_S, PostgresqlConnections
from agentctx_postgresql.driver import BEGIN, Connection
from agentctx_postgresql.entries import lookup, writes
from agentctx_postgresql.entries.copying import COPY_STATEMENTS
from agentctx_postgresql.queue.jobs import JOB_STATEMENTS
from agentctx_postgresql.trust.statements import TRUST_STATEMENTS
from agentctx_postgresql.upkeep.proofs import PROOF_STATEMENTS
from agentctx_postgresql.vectors.spaces import SPACE_STATEMENTS

T = TypeVar("T")

EXECUTE: Final[sql.Functions] = {
    **sql.SQL,
    **TRUST_STATEMENTS,
    **COPY_STATEMENTS,
    saving.FindLive: writes.find_live,
    forgetting.FindRow: writes.find_row,
    forgetting.FindExpired: writes.find_expired,
    forgetting.LockEntry: writes.lock,
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


async def follow(conn: Connection, steps: Steps[T]) -> T:
    """Return the result of the steps. Runs inside the caller's transaction, which an error rolls back."""
    return await sql.follow(conn, steps, EXECUTE)


class PostgresqlFollower:
    """`Follower` on the connections to a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        self.db = connections
        self.clock = connections.clock
        self.daemon = connections.daemon
        self.notes = connections.erasures
        self.server_ms = connections.server_ms

    async def change(
        self,
        steps: Callable[[], Steps[T]],
        committed: Callable[[T], None] | None = None,
        *,
        shares_spaces: bool = False,
    ) -> T:
        begin = locks.BEGIN_SHARING_SPACES if shares_spaces else BEGIN
        return await self.db.write(lambda conn: follow(conn, steps()), committed, begin=begin)

    async def look(self, steps: Callable[[], Steps[T]], *, is_long: bool = False) -> T:
        timeout_s = CHECK_TIMEOUT_S if is_long else READ_TIMEOUT_S
        return await self.db.read(lambda conn: follow(conn, steps()), timeout_s)

    async def ask(self, statement: Statement[T]) -> T:
        return await self.db.query(lambda conn: EXECUTE[type(statement)](conn, statement))
