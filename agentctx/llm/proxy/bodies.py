"""Read bodies without blocking other requests: small ones here, large ones in another process.

Parsing a large body is a single call that blocks every thread of this process until it returns.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from agentctx.errors import DeadlineExceeded, InvalidInput, TooLarge, Unavailable
from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.injection import InjectionRequest, ModelCall
from agentctx.llm.proxy.body import JsonBody
from agentctx.llm.proxy.body_process import LENGTHS, Head, packed_head
from agentctx.wire.protocol import InjectionPosition

MAX_INLINE_BYTES: Final = 64 * 1024
"""Limit for a body that the event loop reads: about 10 ms at most, whatever its content."""
S_PER_MIB: Final = 1.0
"""Ten times what an idle machine needs, so that a busy one still adds context to the call."""
MAX_PROCESSES: Final = 2
IDLE_S: Final = 30.0
"""After this long without a large body, a process ends and frees its memory."""

_MODULE: Final = "agentctx.llm.proxy.body_process"
_PACKAGE_ROOT: Final = Path(__file__).parents[3]
_MIB: Final = 1024 * 1024
_REFUSALS: Final = {kind.code: kind for kind in (InvalidInput, TooLarge)}


class BodyProcesses:
    """Makes calls from bodies. `aclose` ends the processes.

    Args:
        deadline_s: time limit for each of the two steps of a large body, plus `s_per_mib` for each MiB begun.
            A body that takes longer goes out unchanged.
        most_bytes_here: larger bodies are read in another process.
        most_processes: maximum number of processes; further bodies wait for one, within their deadline.
    """

    def __init__(
        self,
        *,
        deadline_s: float,
        s_per_mib: float = S_PER_MIB,
        max_inline_bytes: int = MAX_INLINE_BYTES,
        max_processes: int = MAX_PROCESSES,
    ) -> None:
        self._deadline_s = deadline_s
        self._s_per_mib = s_per_mib
        self._max_inline_bytes = max_inline_bytes
        self._free = asyncio.Semaphore(max_processes)
        self._processes: set[_Process] = set()
        self._idle: dict[_Process, asyncio.TimerHandle] = {}

    @asynccontextmanager
    async def call(self, dialect: Dialect, body: bytes) -> AsyncIterator[ModelCall[bytes]]:
        """Return the call with this body, which is parsed when the caller reads it."""
        if len(body) <= self._max_inline_bytes:
            yield JsonBody(dialect, body)
            return
        deadline_s = self._deadline_s + self._s_per_mib * math.ceil(len(body) / _MIB)
        call = _ProcessCall(self, dialect, body, deadline_s)
        try:
            yield call
        finally:
            call.close()

    async def aclose(self) -> None:
        """End every process; idempotent."""
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        processes, self._processes = self._processes, set()
        for process in processes:
            process.kill()
            await process.wait()

    async def take(self) -> _Process:
        """Take a process for one body; return it with `give_back`.

        Raises:
            Unavailable: no process could be started.
        """
        await self._free.acquire()
        try:
            return self._take_idle() or await self._start()
        except BaseException:
            self._free.release()
            raise

    def _take_idle(self) -> _Process | None:
        while self._idle:
            process, timer = self._idle.popitem()
            timer.cancel()
            if process.is_running:
                return process
        return None

    async def _start(self) -> _Process:
        self._processes = {process for process in self._processes if process.is_running}
        try:
            process = _Process(await _started())
        except OSError as error:
            raise Unavailable(f"Cannot start a process to read a body ({error.strerror}).") from error
        self._processes.add(process)
        return process

    def give_back(self, process: _Process) -> None:
        """Keep a process that has answered for the next body; kill one that has not."""
        self._free.release()
        if process.has_answered:
            self._idle[process] = asyncio.get_running_loop().call_later(IDLE_S, self._end, process)
        else:
            process.kill()

    def _end(self, process: _Process) -> None:
        del self._idle[process]
        process.kill()


class _ProcessCall:
    def __init__(self, bodies: BodyProcesses, dialect: Dialect, body: bytes, deadline_s: float) -> None:
        self._bodies = bodies
        self._dialect = dialect
        self._deadline_s = deadline_s
        self._process: _Process | None = None
        self.body = body

    async def read(self) -> InjectionRequest:
        async with self._deadline():
            self._process = await self._bodies.take()
            answer, _ = await self._process.ask({"dialect": self._dialect.name}, self.body)
        return InjectionRequest(**answer["asked"])

    async def inject(self, position: InjectionPosition, given: Conversation, new: str | None) -> bytes:
        if self._process is None or not (new or given.blocks):
            return self.body
        async with self._deadline():
            head = {"position": position, "blocks": given.blocks, "latest": given.latest, "new": new}
            answer, changed = await self._process.ask(head)
        return self.body if "unchanged" in answer else changed

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._bodies.give_back(process)

    @asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except TimeoutError:
            raise DeadlineExceeded(f"The request body was not read within {self._deadline_s:g} s.") from None


class _Process:
    """One process and its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.has_answered = True
        """Whether it is waiting for the next message."""

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def ask(self, head: Head, body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Send a message; return the head and the body of the answer.

        Raises:
            InvalidInput, TooLarge: the body cannot be read.
            Unavailable: the process has ended.
        """
        self.has_answered = False
        try:
            answer, changed = await self._exchanged(head, body)
        except (OSError, EOFError) as error:
            raise Unavailable("The process that reads large request bodies has ended.") from error
        self.has_answered = True
        if "code" in answer:
            raise _REFUSALS[answer["code"]](answer["message"])
        return answer, changed

    async def _exchanged(self, head: Head, body: bytes) -> tuple[dict[str, Any], bytes]:
        sink, source = self._process.stdin, self._process.stdout
        assert sink is not None  # noqa: S101 - it was started with pipes; for the type checker
        assert source is not None  # noqa: S101
        sink.write(packed_head(head, body))
        sink.write(body)
        await sink.drain()
        head_size, body_size = LENGTHS.unpack(await source.readexactly(LENGTHS.size))
        answer = json.loads(await source.readexactly(head_size))
        return answer, await source.readexactly(body_size)

    def kill(self) -> None:
        if self.is_running:
            self._process.kill()

    async def wait(self) -> None:
        await self._process.wait()


async def _started() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", _MODULE),
        # `-m` searches the working directory first, so it must be the root of this very package.
        cwd=_PACKAGE_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
