import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.client.async_client import AsyncClient
from agentctx.client.sync_client import Client
from tests.client.stub_daemon import StubDaemon

Do = Callable[..., Awaitable[Any]]
"""`await do("save", "knowledge", ...)` calls the method of either client."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[StubDaemon]:
    with StubDaemon(tmp_path / "s").running() as stub:
        yield stub


@pytest.fixture(params=[Client, AsyncClient])
async def do(request: pytest.FixtureRequest, daemon: StubDaemon) -> AsyncIterator[Do]:
    client = request.param(str(daemon.socket), namespace="team")

    async def call(name: str, *args: Any, **kwargs: Any) -> Any:
        result = getattr(client, name)(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    yield call
    await call("close")
