"""How many calls lie between a route and the statement that does its work.

Long chains are hard to read and to debug.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agentctx.config.schema import Settings
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.server.app import create_app
from agentctx.storage.file.driver import open_connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.writer import Writer
from tests.running_core import ME, embedded, running_core
from tests.service.access.peers import access_control, client_of, grant

MAX_CALLS = 10
CARRIER = "agentctx.storage.file."
"""Runs functions in a connection's thread: `Writer.run` and `Readers.run` count as one call each."""


class CallChains:
    """Records, for each SQL statement, the calls in agentctx that led to it, across tasks and threads."""

    def __init__(self) -> None:
        self.chains: list[tuple[str, list[str]]] = []
        self._of_task: dict[asyncio.Task[Any], list[str]] = {}
        self._carried = threading.local()

    def make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        self._of_task[task] = self._chain()
        return task

    def trace_run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        async def run_traced(carrier: Any, function: Callable[[Any], Any], **options: Any) -> Any:
            chain = [*self._chain(), f"{type(carrier).__name__}.run"]

            def run_in_thread(connection: Any) -> Any:
                self._carried.chain = chain
                try:
                    return function(connection)
                finally:
                    self._carried.chain = None

            return await run(carrier, run_in_thread, **options)

        return run_traced

    def record(self, statement: str) -> None:
        if chain := getattr(self._carried, "chain", None):
            inner = [name for name in _names(sys._getframe(1)) if not name.startswith(CARRIER)]
            self.chains.append((" ".join(statement.split()), [*chain, *inner]))

    def between(self, handler: str, function: str, statement: str) -> list[str]:
        """Return the calls between a route's handler and the function that runs a statement."""
        for text, chain in self.chains:
            names = [name.rpartition(":")[2] for name in chain]
            if text.startswith(statement) and {handler, function} <= set(names):
                return names[names.index(handler) + 1 : names.index(function) + 1]
        raise AssertionError(f"{handler} did not reach {statement!r} in {function}: {self.chains}")

    def _chain(self) -> list[str]:
        task = asyncio.current_task()
        return [*(self._of_task.get(task, []) if task else []), *_names(sys._getframe(1))]


def _names(frame: FrameType | None) -> list[str]:
    names: list[str] = []
    while frame is not None:
        if (module := str(frame.f_globals.get("__name__", ""))).startswith("agentctx."):
            names.append(f"{module}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


@pytest.fixture
async def chains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CallChains:
    """The call chains of a save and a search over HTTP, without a socket."""
    chains = CallChains()

    def open_traced(*args: Any, **options: Any) -> Any:
        connection = open_connection(*args, **options)
        connection.set_trace_callback(chains.record)
        return connection

    monkeypatch.setattr("agentctx.storage.file.connection_thread.open_connection", open_traced)
    monkeypatch.setattr(Writer, "run", chains.trace_run(Writer.run))
    monkeypatch.setattr(Readers, "run", chains.trace_run(Readers.run))
    loop = asyncio.get_running_loop()
    loop.set_task_factory(chains.make_task)
    async with running_core(tmp_path, FakeProvider()) as core:
        access = access_control(grant("write", "default", uid=ME.uid))
        app = create_app(core, core.guard(access), Settings())
        async with client_of(app, ME) as http:
            entry = {"collection": "knowledge", "key": "whale", "content": "the whale is green"}
            assert (await http.post("/v1/entries", json=entry)).status_code == 201
            await embedded(core)
            reply = await http.post("/v1/search", json={"query": "the whale?"})
            assert reply.json()["results"]
            assert reply.json()["degraded"] is None
    loop.set_task_factory(None)
    return chains


@pytest.mark.parametrize(
    ("handler", "function", "statement"),
    [
        ("SaveHandlers.save", "insert_version", "INSERT INTO entries"),
        ("handler_of.<locals>.handle", "by_words", "SELECT chunks.id, e.id"),
        ("handler_of.<locals>.handle", "by_vector", "SELECT"),
    ],
)
def test_few_calls_lie_between_a_route_and_the_database(
    chains: CallChains, handler: str, function: str, statement: str
) -> None:
    chain = chains.between(handler, function, statement)
    assert len(chain) <= MAX_CALLS, chain
