"""Deliberately broken builds: each removes one thing that the promise needs, in the calling process.

A suite that does not notice them proves nothing. A hindered build is whole, but meets bad luck.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any


def apply(name: str) -> None:
    """Break or slow down this process; "" does nothing."""
    if name:
        {**BROKEN, **BROKEN_SERVED, **HINDERED, **CARELESS}[name]()


def replace(owner: Any, name: str, broken: Any) -> None:
    """Replace an attribute, also in modules that have imported it by name.

    Raises AttributeError if it is gone: a sabotage must not fail silently.
    """
    whole = getattr(owner, name)
    setattr(owner, name, broken)
    for module in list(sys.modules.values()):
        if vars(module).get(name) is whole:
            setattr(module, name, broken)


def acknowledge_before_commit() -> None:
    """Commit a write only when the next one arrives, after answering."""
    from agentctx.storage.file import commit

    def commit_later(connection: Any, functions: Sequence[Any]) -> Any:
        if connection.in_transaction:
            connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        return [commit._in_savepoint(connection, function) for function in functions], 1

    replace(commit, "commit_group", commit_later)


def create_no_jobs() -> None:
    """Save entries without jobs."""
    from agentctx.storage.sqlite.entries import chunks

    insert = chunks.insert

    def without_jobs(*arguments: Any, embed: bool, **named: Any) -> Any:
        return insert(*arguments, embed=False, **named)

    replace(chunks, "insert", without_jobs)


def forget_idempotency_keys() -> None:
    """Save again when a request is repeated."""
    from agentctx.storage.sqlite.entries import writes

    replace(writes, "remember", lambda *_: None)


def forget_half() -> None:
    """Keep the words of a forgotten entry in the index."""
    from agentctx.storage.sqlite.entries import chunks

    replace(chunks, "_forget_words", lambda *_: None)


def rank_the_pending_last() -> None:
    """Rank what has no vector yet behind everything that has one."""
    from agentctx.service.rag import fuse, unmeasured

    whole = fuse.nearness

    def far(candidates: Any, words: Sequence[float]) -> list[float]:
        return whole(candidates, [0.0] * len(words))

    replace(fuse, "nearness", far)
    replace(unmeasured, "leader", lambda _: None)


def leave_deleted_text() -> None:
    """Never remove deleted rows from the files."""
    from agentctx.storage.sqlite.upkeep.upkeep_storage import SqliteUpkeep

    async def tidy(_: SqliteUpkeep) -> bool:
        return True

    async def wait_for_work(_: SqliteUpkeep) -> None:
        await asyncio.Event().wait()

    replace(SqliteUpkeep, "tidy", tidy)
    replace(SqliteUpkeep, "wait_for_work", wait_for_work)


def rewrite_nothing() -> None:
    """Never rewrite the database file."""
    from agentctx.storage.sqlite.upkeep.rewrite import Rewriter

    async def rewrite(_: Rewriter, *, insists: bool) -> bool:
        return True

    replace(Rewriter, "rewrite", rewrite)


def hang_the_provider() -> None:
    """Never return batches from the provider; questions are answered."""
    from agentctx.embedding.providers.canary import CANARY
    from agentctx.embedding.providers.fake import FakeProvider

    embed = FakeProvider.embed

    async def hanging(provider: FakeProvider, texts: Sequence[str]) -> Any:
        if list(texts) != [CANARY]:
            await asyncio.Event().wait()
        return await embed(provider, texts)

    replace(FakeProvider, "embed", hanging)


def lock_nothing() -> None:
    """Let two daemons own one data folder and one socket."""
    from agentctx.daemon import run

    def unlocked(path: Path) -> Any:
        path.parent.mkdir(parents=True, exist_ok=True)
        return nullcontext()

    replace(run, "acquire_lock", unlocked)


def never_look_at_the_files() -> None:
    """Keep removed files open and write to them."""
    from agentctx.storage.file.open_files import OpenFiles

    replace(OpenFiles, "loss", lambda _: None)


def begin_empty() -> None:
    """Start without the database that was there."""
    from agentctx.daemon import run

    replace(run, "missing", lambda _: None)


def forget_the_queue_at_the_end() -> None:
    """Discard unfinished work at a stop."""
    from agentctx.embedding.queue.worker import EmbeddingQueue

    async def throw_away(queue: Any) -> None:
        await queue._storage.db.writer.run(lambda connection: connection.execute("DELETE FROM jobs"))

    hang_the_provider()
    replace(EmbeddingQueue, "_give_leases_back", throw_away)


def fail_in_company() -> None:
    """Fail concurrent writers with a locked database."""
    from agentctx.errors import StorageFailed
    from agentctx.storage.file import commit

    commit_group = commit.commit_group

    def locked(connection: Any, functions: Sequence[Any]) -> Any:
        if len(functions) > 4:
            error = StorageFailed("database is locked")
            return [commit.FailedWrite(error)] * len(functions), 0
        return commit_group(connection, functions)

    replace(commit, "commit_group", locked)


def keep_every_request() -> None:
    """Leak memory and descriptors."""
    from agentctx.server.request_context import RequestContext

    call = RequestContext.__call__
    kept: list[object] = []

    async def keeping(context: Any, *arguments: Any) -> None:
        kept.append((bytearray(50_000), os.dup(2) if len(kept) < 200 else None))
        await call(context, *arguments)

    replace(RequestContext, "__call__", keeping)


def ask_with_the_first_model() -> None:
    """Embed questions with the configured model, whichever space is searched."""
    from agentctx.daemon import build
    from agentctx.embedding.providers.fake import FakeProvider
    from agentctx.service.rag.retrieval import ServingModel

    first = FakeProvider(model="old")

    def mixed(space: int | None, reason: str | None = None, *_: Any) -> Any:
        return ServingModel(space, reason, first)

    replace(build, "ServingModel", mixed)


def back_up_the_past() -> None:
    """Make a sound first backup, and copy it for every later one."""
    import shutil

    from agentctx.storage.file.copy import VerifiedCopy, keep_copy
    from agentctx.storage.sqlite.backup import backup_file

    first: list[tuple[Path, VerifiedCopy]] = []

    def from_the_past(target: Path, **options: Any) -> VerifiedCopy:
        copied = keep_copy(target, **options)
        if first:
            shutil.copyfile(first[0][0], target)
            return first[0][1]
        kept = target.with_suffix(".first")
        shutil.copyfile(target, kept)
        first.append((kept, copied))
        return copied

    replace(backup_file, "keep_copy", from_the_past)


def set_the_clock(ahead_s: int) -> Callable[[], None]:
    """Shift the machine's clock by this many seconds."""

    def wrong() -> None:
        seconds, nanoseconds = time.time, time.time_ns
        replace(time, "time", lambda: seconds() + ahead_s)
        replace(time, "time_ns", lambda: nanoseconds() + ahead_s * 1_000_000_000)

    return wrong


def empty_the_index_first() -> None:
    """Empty the keyword index before a rebuild, and never resume it."""
    from agentctx.storage.sqlite.search import word_index
    from agentctx.storage.sqlite.upkeep import word_rebuild
    from agentctx.storage.sqlite.upkeep.upkeep_storage import SqliteUpkeep

    async def never(_: SqliteUpkeep) -> None:
        return None

    add_words = word_rebuild.add_words

    def slowly(connection: Any, **named: Any) -> Any:
        time.sleep(0.01)  # so that a kill comes while words are missing
        return add_words(connection, limit=1, **named)

    def emptied(connection: Any) -> None:
        word_index.drop(connection, word_index.NEXT)
        word_index.drop(connection, word_index.TABLE)
        word_index.create(connection, word_index.TABLE)
        word_index.create(connection, word_index.NEXT)

    replace(word_rebuild, "begin", emptied)
    replace(word_rebuild, "add_words", slowly)
    replace(SqliteUpkeep, "resume_words", never)


def commit_without_waiting() -> None:
    """Let PostgreSQL answer before the commit is on its disk."""
    from contextlib import asynccontextmanager

    from agentctx_postgresql.connections import PostgresqlConnections

    transaction = PostgresqlConnections._transaction
    write_statement = PostgresqlConnections.write_statement

    async def asynchronous_statement(db: Any, statement: Any, outcome: Any) -> Any:
        async def at_once(conn: Any) -> Any:
            await conn.execute("SET synchronous_commit = off")
            return await statement(conn)

        return await write_statement(db, at_once, outcome)

    @asynccontextmanager
    async def asynchronous(db: Any, begin: str) -> Any:
        async with transaction(db, begin) as conn:
            await conn.execute("SET LOCAL synchronous_commit = off")
            yield conn

    replace(PostgresqlConnections, "_transaction", asynchronous)
    replace(PostgresqlConnections, "write_statement", asynchronous_statement)


def create_no_jobs_on_postgresql() -> None:
    """Save entries without jobs."""
    from agentctx_postgresql.entries import chunks

    build = chunks.build

    def without_jobs(*arguments: Any, reservation: Any, **named: Any) -> Any:
        return build(*arguments, reservation=None, **named)

    replace(chunks, "build", without_jobs)


def forget_idempotency_keys_on_postgresql() -> None:
    """Save again when a request is repeated."""
    from agentctx_postgresql.entries.entry_storage import PostgresqlEntries

    save = PostgresqlEntries.save

    async def without_key(entries: Any, draft: Any, *, idempotency: Any = None, **named: Any) -> Any:
        return await save(entries, draft, **named)

    replace(PostgresqlEntries, "save", without_key)


def log_what_is_embedded() -> None:
    """Log each call of the model."""
    from agentctx.embedding.providers.canary import CANARY
    from agentctx.embedding.providers.fake import FakeProvider

    embed = FakeProvider.embed

    async def logged(provider: FakeProvider, texts: Sequence[str]) -> Any:
        if list(texts) != [CANARY]:
            sys.stderr.write(json.dumps({"event": "embedded", "texts": list(texts)}) + "\n")
            sys.stderr.flush()
        return await embed(provider, texts)

    replace(FakeProvider, "embed", logged)


def claim_what_others_have_leased() -> None:
    """Ignore the leases of other daemons."""
    from agentctx_postgresql.queue import jobs

    lease = "leased_until <= $1 OR"
    assert lease in jobs._CLAIM
    replace(jobs, "_CLAIM", jobs._CLAIM.replace(lease, "TRUE OR"))
    log_what_is_embedded()


BROKEN_SERVED: dict[str, Callable[[], None]] = {
    "commit without waiting": commit_without_waiting,
    "owe nothing on PostgreSQL": create_no_jobs_on_postgresql,
    "forget idempotency keys on PostgreSQL": forget_idempotency_keys_on_postgresql,
}

BROKEN: dict[str, Callable[[], None]] = {
    "acknowledge before commit": acknowledge_before_commit,
    "owe nothing": create_no_jobs,
    "forget idempotency keys": forget_idempotency_keys,
    "forget half": forget_half,
    "rank the pending last": rank_the_pending_last,
}

HINDERED: dict[str, Callable[[], None]] = {
    "hang the provider": hang_the_provider,
    "log what is embedded": log_what_is_embedded,
    "clock a year ahead": set_the_clock(365 * 86_400),
    "clock a year behind": set_the_clock(-365 * 86_400),
}
CARELESS: dict[str, Callable[[], None]] = {
    "lock nothing": lock_nothing,
    "claim what others have leased": claim_what_others_have_leased,
    "never look at the files": never_look_at_the_files,
    "begin empty": begin_empty,
    "forget the queue at the end": forget_the_queue_at_the_end,
    "fail in company": fail_in_company,
    "keep every request": keep_every_request,
    "leave deleted text": leave_deleted_text,
    "rewrite nothing": rewrite_nothing,
    "ask with the first model": ask_with_the_first_model,
    "back up the past": back_up_the_past,
    "empty the index first": empty_the_index_first,
}
