"""`EntryStorage` on a PostgreSQL server, where concurrent saves of new entries share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import ceil
from typing import Final, NamedTuple, TypeAlias

import asyncpg

from agentctx.errors import AgentctxError
from agentctx.storage import saving
from agentctx.storage.audit import AuditStorage
from agentctx.storage.entries import EntryStorage
from agentctx.storage.ids import new_id
from agentctx.storage.records import Draft, EntryKey, SaveOutcome
from agentctx.storage.supersession import links_of
from agentctx.storage.versions import SaveCommand, Times
from agentctx_postgresql import driver, locks
from agentctx_postgresql.connections import PostgresqlPart, looks_up, queries
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import lookup, new_versions
from agentctx_postgresql.entries.new_versions import NewVersion
from agentctx_postgresql.search import terms
from agentctx_postgresql.statements import PostgresqlFollower, follow

CONCURRENT_GROUPS: Final = 2
"""While the server writes one group, the daemon prepares the words and chunks of the other."""
MIN_SHARE: Final = 8
"""A group takes half of the saves in progress, so that the other group can take the rest; at least this many
if they are there, because every group costs a transaction."""
MAX_MEMBERS: Final = 64
BUILT_INLINE: Final = 8_000
"""Up to this many characters, the rows of a group are built in the event loop: a thread would cost more."""


Commit: TypeAlias = Callable[[Sequence[saving.InsertVersion]], Awaitable[Sequence[SaveOutcome | None]]]


class _WaitingSave(NamedTuple):
    new: saving.InsertVersion
    answer: asyncio.Future[SaveOutcome | None]


class SaveGroups:
    """Collects the saves that arrive while two groups are being committed; they are in the next groups.

    `commit` writes a group in one transaction and returns the outcome of each save: None for one that must
    be saved alone.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[_WaitingSave] = []
        self._in_progress = 0
        self._running: set[asyncio.Task[None]] = set()

    async def save(self, new: saving.InsertVersion) -> SaveOutcome | None:
        """Return the outcome from `commit` once it is on the server's disk.

        None also if the server refused the group, maybe because of another member. Cancelling the caller does
        not cancel the save.

        Raises:
            StorageFailed, StorageClosed.
        """
        waiting = _WaitingSave(new, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._in_progress += 1
        if len(self._running) < CONCURRENT_GROUPS:
            self._running.add(asyncio.create_task(self._run()))
        return await waiting.answer

    async def close(self) -> None:
        """Wait until all accepted saves are answered."""
        while self._running:
            await asyncio.wait(self._running)

    async def _run(self) -> None:
        try:
            while self._waiting:
                size = group_size(self._in_progress)
                group, self._waiting = self._waiting[:size], self._waiting[size:]
                await self._commit_group(group)
                self._in_progress -= len(group)
        finally:
            self._running -= {asyncio.current_task()}

    async def _commit_group(self, group: Sequence[_WaitingSave]) -> None:
        try:
            answers = await self._commit([each.new for each in group])
        except Exception as error:  # noqa: BLE001 - passed on to the callers
            _refuse(group, error)
        else:
            for each, answer in zip(group, answers, strict=True):
                _answer(each, answer)


def group_size(in_progress: int) -> int:
    """Return how many of the saves in progress, waiting or being committed, a group may have."""
    return min(MAX_MEMBERS, max(MIN_SHARE, ceil(in_progress / CONCURRENT_GROUPS)))


def _answer(waiting: _WaitingSave, answer: SaveOutcome | None) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(answer)


def _refuse(group: Sequence[_WaitingSave], error: Exception) -> None:
    for each in group:
        if _is_member_error(error):
            _answer(each, None)
        elif not each.answer.done():
            each.answer.set_exception(error)


def _is_member_error(error: Exception) -> bool:
    """Return whether a single save may be the reason why the group failed, and nothing of it was written."""
    if not isinstance(error, AgentctxError):
        return True
    cause = error.__cause__
    return isinstance(cause, asyncpg.PostgresError) and not driver.is_lost(cause)


def is_creation(draft: Draft, if_version: int | None) -> bool:
    """Return whether a save creates a new entry, whatever is stored, and writes only rows of its own."""
    is_alone = (
        draft.key is None
        and draft.remember is None
        and not (draft.derived_from or links_of(draft.attributes))
    )
    return is_alone and not draft.flags and not draft.is_held and not if_version


async def write_group(conn: Connection, new: Sequence[NewVersion]) -> Sequence[SaveOutcome | None]:
    """Write the entries in one statement; return the outcomes, all None if an Idempotency-Key is in use.

    A lost reply leaves it open whether they were written; `new_versions.find_group` finds them.
    """
    try:
        return await new_versions.insert_group(conn, new)
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name != new_versions.KEY_CONSTRAINT:
            raise
    # The key may be in use by this very group, written by a statement whose reply was lost.
    return await new_versions.find_group(conn, new) or [None] * len(new)


class PostgresqlEntries(PostgresqlPart, EntryStorage):
    """New entries without a key are written in groups, by one statement each."""

    get = looks_up(lookup.entry)
    namespace_of = looks_up(lookup.namespace_of)
    find = looks_up(lookup.entry_by_key)
    find_by_prefix = looks_up(lookup.find_by_prefix)
    history = looks_up(lookup.history, in_snapshot=True)
    list_entries = looks_up(lookup.page, in_snapshot=True)
    count_by_namespace = looks_up(lookup.count_by_namespace)
    ids_of = queries(lookup.ids_of)
    export_page = looks_up(lookup.export_page, in_snapshot=True)

    def __init__(self, follower: PostgresqlFollower, audit: AuditStorage, **kept: int) -> None:
        PostgresqlPart.__init__(self, follower.db)
        EntryStorage.__init__(self, follower, audit, **kept)
        self.groups = SaveGroups(self._create)
        self.on_erased(terms.drop_copies)

    async def _save(self, command: SaveCommand, draft: Draft) -> SaveOutcome:
        has_id = command.idempotency is not None and command.idempotency.entry_id is not None
        if is_creation(draft, command.if_version) and not has_id:
            times = Times(command.now, command.now, command.now)
            new = saving.InsertVersion(command, draft, new_id(command.now, draft.namespace), times)
            saved = await self.groups.save(new)
            if saved is not None:
                return saved
        key = EntryKey.of(draft)
        begin = locks.begin_with_key(*key) if key else locks.BEGIN_SHARING_SPACES
        steps = partial(saving.save, command, draft)
        return await self.db.write(lambda conn: follow(conn, steps()), self._announce, begin=begin)

    async def _create(self, group: Sequence[saving.InsertVersion]) -> Sequence[SaveOutcome | None]:
        is_short = sum(len(each.draft.content) for each in group) <= BUILT_INLINE
        built = map(new_versions.build, group)
        new = list(built) if is_short else await asyncio.to_thread(list, built)
        write = partial(write_group, new=new)
        return await self.db.write_statement(write, partial(new_versions.find_group, new=new))
