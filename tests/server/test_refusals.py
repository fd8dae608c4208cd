"""No refusal repeats a secret, wherever in the request it is."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from agentctx.config.schema import Settings
from agentctx.server.app import create_app
from tests.amount import some
from tests.running_core import running_core
from tests.server.planting import Request, requests_with
from tests.server.running import Running, running
from tests.service.access.peers import access_control
from tests.text.redaction.corpus import KINDS, planted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("daemon")
    async with (
        running_core(folder, None) as core,
        running(asgi=create_app(core, core.guard(access_control()), Settings(), core.telemetry)) as daemon,
    ):
        yield daemon


async def _answer(daemon: Running, request: Request) -> tuple[int, str]:
    reply = await daemon.http.request(
        request.method,
        request.path,
        content=request.body,
        headers={"Content-Type": "application/json", **request.headers},
    )
    return reply.status_code, reply.text


async def _openapi(daemon: Running) -> Any:
    return (await daemon.http.get("/openapi.json")).json()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kind", some(random.Random("refusals").sample(sorted({*KINDS} - {"pin"}), 12), 3))
async def test_neither_refusals_nor_logs_repeat_a_secret(kind: str, daemon: Running) -> None:
    secret = planted(kind, random.Random(f"refused {kind}")).secret
    spellings = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    codes: dict[str, int] = {}
    with capture_logs() as logs:
        for request in requests_with(secret, await _openapi(daemon)):
            status, text = await _answer(daemon, request)
            if status >= 400:
                code = json.loads(text)["error"]["code"]
                codes[code] = codes.get(code, 0) + 1
                assert not [each for each in spellings if each in text], (request, text)
    assert codes["invalid_input"] > 100
    assert not [each for each in spellings if each in repr(logs)]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_harmless_mistake_is_repeated(daemon: Running) -> None:
    """Showing a typo makes it easier to see."""
    _, text = await _answer(daemon, Request("POST", "/v1/search", '{"query": "a", "since": "yesterday"}'))
    assert "'yesterday'" in text
    _, text = await _answer(daemon, Request("POST", "/v1/search", '{"query": "a", "colections": ["x"]}'))
    assert "`colections`" in text
