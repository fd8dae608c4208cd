"""The memories that the state machine drives: the core in this process, or a real daemon."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agentctx import wire
from agentctx.client import saves
from agentctx.daemon.build import Core
from agentctx.embedding.providers.canary import CANARY
from agentctx.embedding.providers.fake import DEFAULT_DIMENSION, FakeFault, FakeProvider
from agentctx.errors import AgentctxError, Conflict, Disposition, NotFound
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.backup.restore import restore_database
from agentctx.times import wall_clock
from agentctx_testing.drafts import ManualClock
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect_copy
from tests.durability.kill import QUICK
from tests.durability.provider_vectors import Judge, look
from tests.moving import differences
from tests.running_core import ME, running_core, sqlite_of

T = TypeVar("T")

PAGE = 100
SETTLE_S = 30.0
HOURS_2 = 7_200_000
"""Longer than any pause of the queue that no provider asked for."""
RESTORE_MS = 1_000
"""A replaced database is kept under a name with the second in it."""


class Memory(Protocol):
    """What the machine needs. Methods raise what a client's would; a crash is a kill -9."""

    steers: bool
    """Whether clock, faults and model can change."""

    def now(self) -> int: ...
    def save(self, request: wire.SaveRequest, key: str) -> wire.SaveResult: ...
    def edit(self, entry_id: str, request: wire.EditRequest) -> wire.SaveResult: ...
    def forget(self, entry_id: str) -> int: ...
    def get(self, entry_id: str) -> wire.EntryView: ...
    def history(self, entry_id: str) -> list[wire.EntryView]: ...
    def listed(self, namespace: str) -> list[wire.EntryView]: ...
    def search(self, request: wire.SearchRequest) -> wire.SearchReply: ...
    def queue(self) -> wire.QueueReply: ...
    def retry_buried(self) -> int: ...

    def settle(self) -> list[str]:
        """Wait until no job is pending; return what is wrong with the vectors."""
        ...

    def problems(self) -> list[str]:
        """Return the findings of the census and, after a crash, of the whole inspection."""
        ...

    def restart(self) -> None: ...
    def crash(self, unanswered: wire.SaveRequest | None, key: str) -> None: ...
    def backup(self, file: Path) -> None: ...
    def restore(self, file: Path) -> None: ...
    def end(self) -> None: ...


class CoreMemory:
    """The core; no task runs between steps. A crash abandons it and opens copies of its files."""

    steers = True

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(wall_clock())
        self.model = "bag-of-words"
        self.next_model: str | None = None
        """The provider of `embedding.next`."""
        self._folder = folder
        self._runner = asyncio.Runner()
        self._life = 0
        self._is_failing = False
        self._open()

    def now(self) -> int:
        return self.clock()

    def save(self, request: wire.SaveRequest, key: str) -> wire.SaveResult:
        return self._run(self._save(request, key))

    def edit(self, entry_id: str, request: wire.EditRequest) -> wire.SaveResult:
        return self._run(self._core.entries.edit(entry_id, request, ME))

    def forget(self, entry_id: str) -> int:
        return self._run(self._core.forgetting.forget(entry_id, ME)).versions

    def get(self, entry_id: str) -> wire.EntryView:
        return self._run(self._core.entries.get(entry_id, ME))

    def history(self, entry_id: str) -> list[wire.EntryView]:
        return self._run(self._core.entries.versions(entry_id, ME, limit=50)).versions

    def listed(self, namespace: str) -> list[wire.EntryView]:
        found: list[wire.EntryView] = []
        cursor: str | None = None
        while True:
            page = self._run(
                self._core.entries.list_entries(ME, namespace=namespace, limit=PAGE, cursor=cursor)
            )
            found, cursor = found + page.entries, page.next
            if cursor is None:
                return found

    def search(self, request: wire.SearchRequest) -> wire.SearchReply:
        return self._run(self._core.questions.search(request, ME))

    def queue(self) -> wire.QueueReply:
        return self._run(self._core.status.queue(ME))

    def retry_buried(self) -> int:
        return self._run(self._core.status.retry(ME)).retried

    def settle(self) -> list[str]:
        self.fail(on=False)
        return self._run(self._settle())

    def problems(self) -> list[str]:
        census = self._run(self._core.storage.upkeep.census())
        return [str(census)] if census.violations else []

    def restart(self) -> None:
        self._close()
        self._open()

    def crash(self, unanswered: wire.SaveRequest | None, key: str) -> None:
        before, self._life = self._data_dir, self._life + 1
        after = self._data_dir
        self._run(self._abandon(before, after, unanswered, key))
        self._close()
        self._open()

    def backup(self, file: Path) -> None:
        self._run(self._core.backups.backup(wire.BackupRequest(file=str(file)), ME))

    def restore(self, file: Path) -> None:
        self._close()
        self.clock.now += RESTORE_MS
        restore_database(file, self._data_dir / DATABASE_NAME, now=self.clock())
        self._open()

    def end(self) -> None:
        self._close()
        self._runner.close()

    def fail(self, *, on: bool) -> None:
        """Make batches fail, or succeed again; the canary of a start always succeeds."""
        self._is_failing = on
        faults = [FakeFault.fails(Disposition.RETRY, when=lambda text: text != CANARY)]
        for provider in self._providers:
            provider.faults = faults if on else []

    def reembed(self, action: wire.ReembedAction) -> bool:
        """Return whether it was done; the models may not be in a state that allows it."""
        try:
            self._run(self._core.reembed.reembed(action, ME))
        except (Conflict, NotFound):
            return False
        return True

    def sweep(self) -> None:
        self._run(self._core.storage.entries.sweep())

    def move(self, *, skew_ms: int) -> list[str]:
        """Return what differs after importing an export where the clock differs by this much."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            return self._run(differences(self._core, Path(folder), now=self.clock() + skew_ms))

    @property
    def _data_dir(self) -> Path:
        return self._folder / f"data{self._life}"

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _open(self) -> None:
        models = [self.model] if self.next_model is None else [self.model, self.next_model]
        self._providers = [FakeProvider(model=model) for model in models]
        self.fail(on=self._is_failing)
        first, second = (*self._providers, None)[:2]
        opening: AbstractAsyncContextManager[Core] = running_core(
            self._data_dir, first, next_provider=second, clock=self.clock
        )
        self._opening = opening
        self._core = self._run(opening.__aenter__())
        self._run(self._filled())

    def _close(self) -> None:
        self._run(self._opening.__aexit__(None, None, None))

    async def _filled(self) -> None:
        """Create jobs for a new space once its model has answered, as a start does."""
        lanes = self._core.lanes
        assert lanes is not None
        async with asyncio.timeout(SETTLE_S):
            while (await self._core.storage.upkeep.census()).chunks_without_job or any(
                lane.builder.state == "starting" for lane in lanes
            ):
                pass

    async def _save(self, request: wire.SaveRequest, key: str) -> wire.SaveResult:
        (result,) = await self._core.entries.save([request], ME, idempotency_key=key)
        if isinstance(result, AgentctxError):
            raise result
        return result

    async def _abandon(
        self, before: Path, after: Path, unanswered: wire.SaveRequest | None, key: str
    ) -> None:
        def copy(_: object) -> None:
            """Copy in the writer's thread, between writes: this is what a kill would leave."""
            after.mkdir()
            for end in ("", "-wal"):
                with suppress(FileNotFoundError):
                    shutil.copy(before / f"{DATABASE_NAME}{end}", after)

        saving = [self._save(unanswered, key)] if unanswered else []
        await asyncio.gather(*saving, sqlite_of(self._core).db.writer.run(copy))

    async def _is_owing(self) -> bool:
        """Return whether any space has pending jobs, including the second one."""
        lanes = self._core.lanes
        assert lanes is not None
        return any([await self._core.storage.spaces.pending(lane.space) for lane in lanes])

    async def _settle(self) -> list[str]:
        lanes = self._core.lanes
        assert lanes is not None
        async with asyncio.timeout(SETTLE_S):
            while await self._is_owing():
                self.clock.now += HOURS_2
                lanes.recheck_table()
                for lane in lanes:
                    await lane.queue.idle()
        buried = await self._core.storage.jobs.depth()
        missing = None if buried.buried else ()
        wrong: list[str] = []
        for lane in lanes:
            judge = Judge(FakeProvider(model=lane.provider.model).embed, DEFAULT_DIMENSION)
            wrong += await judge.wrong(await look(sqlite_of(self._core), lane.space), missing=missing)
        return wrong


class DaemonMemory:
    """The real daemon over its socket; a crash is a SIGKILL."""

    steers = False

    def __init__(self, folder: Path, broken: str = "") -> None:
        self._folder = folder
        self._broken = broken
        self._daemon = ForkedDaemon(folder)
        self._found: list[str] = []
        self._restores = 0
        self._start()

    def now(self) -> int:
        return wall_clock()

    def save(self, request: wire.SaveRequest, key: str) -> wire.SaveResult:
        return self._client._send(saves.save_once(request, key))

    def edit(self, entry_id: str, request: wire.EditRequest) -> wire.SaveResult:
        return self._client.edit(entry_id, **asdict(request))

    def forget(self, entry_id: str) -> int:
        return self._client.forget(entry_id).versions

    def get(self, entry_id: str) -> wire.EntryView:
        return self._client.get(entry_id)

    def history(self, entry_id: str) -> list[wire.EntryView]:
        return self._client.history(entry_id).versions

    def listed(self, namespace: str) -> list[wire.EntryView]:
        return list(self._client.iterate(namespace=namespace, limit=PAGE))

    def search(self, request: wire.SearchRequest) -> wire.SearchReply:
        return self._client.search(**asdict(request))

    def queue(self) -> wire.QueueReply:
        return self._client.queue()

    def retry_buried(self) -> int:
        return self._client.retry_buried().retried

    def settle(self) -> list[str]:
        left = self._client.drain(timeout_s=SETTLE_S)
        return [f"{left.pending} jobs are pending after a drain"] if left.pending else []

    def problems(self) -> list[str]:
        found, self._found = self._found, []
        return found

    def restart(self) -> None:
        self._client.close()
        if code := self._daemon.stop():
            self._found.append(f"the exit code is {code}")
        self._start()

    def crash(self, unanswered: wire.SaveRequest | None, key: str) -> None:
        sending = threading.Thread(target=self._send_unheard, args=(unanswered, key))
        if unanswered:
            sending.start()
        self._daemon.stop(signal.SIGKILL)
        if unanswered:
            sending.join()
        self._client.close()
        self._found += inspect_copy(self._daemon.data_dir, self._folder / "copy").problems
        self._start()

    def backup(self, file: Path) -> None:
        self._client.backup(str(file))

    def restore(self, file: Path) -> None:
        self._client.close()
        self._daemon.stop()
        self._restores += 1
        now = wall_clock() + RESTORE_MS * self._restores
        restore_database(file, self._daemon.data_dir / DATABASE_NAME, now=now)
        self._start()

    def end(self) -> None:
        self._client.close()
        self._daemon.end()

    def _start(self) -> None:
        self._daemon.start(QUICK, broken=self._broken)
        self._client = self._daemon.client(start_timeout_s=0.0)

    def _send_unheard(self, request: wire.SaveRequest, key: str) -> None:
        with suppress(AgentctxError), self._daemon.client(start_timeout_s=0.0) as client:
            client._send(saves.save_once(request, key))
