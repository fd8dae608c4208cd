"""The block from a real service in this process, and from a real daemon over its socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx import AsyncClient, ContextAwareModelAdapter
from agentctx.config.embedding import RagSettings
from agentctx.daemon.build import Core
from agentctx.errors import DaemonUnreachable
from agentctx.llm.base import FunctionModelAdapter
from agentctx.llm.context_source import ContextQuestion, ServiceContextSource, SocketContextSource, latest
from agentctx.llm.scope import Scope
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.service import RAGService
from tests.end_to_end.daemon_process import DaemonProcess
from tests.running_core import running_core, save

QUESTION = "how do we deploy the web service?"


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with running_core(tmp_path / "data", None) as running:
        await save(running, key="deploy", content="We deploy the web service with make release.")
        yield running


def service(core: Core, **settings: Any) -> ServiceContextSource:
    rag = RagSettings.model_validate(settings)
    return ServiceContextSource(
        RAGService(core.storage, None, lambda: ServingModel(None, "off: none"), rag), rag
    )


async def test_a_service_in_this_process_gives_block_tokens_and_ids(core: Core) -> None:
    context = await service(core).context(ContextQuestion(text=QUESTION))
    assert "make release" in context.block
    assert context.tokens > 0
    assert len(context.ids) == 1
    assert context.degraded is not None


async def test_nothing_found_is_an_empty_block(core: Core) -> None:
    assert (await service(core).context(ContextQuestion(text="zebra crossing quota"))).block == ""


async def test_the_config_can_disable_it(core: Core) -> None:
    context = await service(core, enabled=False).context(ContextQuestion(text=QUESTION))
    assert context.block == ""
    assert context.degraded is not None


async def test_a_system_prompt_gets_only_trusted_passages(core: Core) -> None:
    await save(
        core, key="page", content="A web page says to deploy the web service by fax.", origin="document"
    )
    source = service(core)
    at_tail = await source.context(ContextQuestion(text=QUESTION, position="tail"))
    in_system = await source.context(ContextQuestion(text=QUESTION, position="system"))
    assert "by fax" in at_tail.block
    assert "make release" in in_system.block
    assert "by fax" not in in_system.block


async def test_passages_already_in_the_conversation_are_not_repeated(core: Core) -> None:
    present = ["I know: We deploy the web service with make release."]
    assert (await service(core).context(ContextQuestion(text=QUESTION, present=present))).block == ""


async def test_namespace_and_session_narrow_the_search(core: Core) -> None:
    await save(core, "observation", session="s1", content="In s1 the web service deploy failed.")
    source = service(core)

    async def found(**scope: Any) -> str:
        return (await source.context(ContextQuestion(text=QUESTION, scope=Scope(**scope)))).block

    assert "In s1" in await found()
    assert "In s1" in await found(session="s1")
    assert "In s1" not in await found(session="s2")
    assert await found(namespaces=("other",)) == ""
    assert "make release" in await found(namespaces=("other", "default"))
    # Memory is shared, so the caller does not filter it.
    assert "make release" in await found(agent="bob")


async def test_an_adapter_over_a_service_in_this_process(core: Core) -> None:
    seen: list[Any] = []

    async def model(messages: Any) -> str:
        seen.append(messages)
        return "ok"

    adapter = ContextAwareModelAdapter(FunctionModelAdapter(model), service(core), deadline_s=30)
    assert await adapter.complete([{"role": "user", "content": QUESTION}]) == "ok"
    assert seen[0][0]["content"].startswith("## Semantic Context (RAG)\n")
    assert "make release" in seen[0][0]["content"]
    assert adapter.outcomes == {"new": 1}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Any:
    process = DaemonProcess(
        tmp_path_factory.mktemp("daemon"),
        config='[embedding]\nprovider = "none"\n',
    )
    process.start()
    with process.client() as client:
        client.save_knowledge("deploy", "We deploy the web service with make release.")
        client.save_knowledge("hidden", "The web service deploy of ops uses chef.", namespace="ops")
    yield process
    process.end()


async def test_the_daemon_gives_it_over_its_socket(daemon: DaemonProcess) -> None:
    async with AsyncClient(daemon.socket) as client:
        source = SocketContextSource(client)
        context = await source.context(ContextQuestion(text=QUESTION))
        ops = await source.context(ContextQuestion(text=QUESTION, scope=Scope(namespaces=("ops",))))
        repeated = await source.context(ContextQuestion(text=QUESTION, present=["\ud800", context.block]))
    assert "make release" in context.block
    assert (len(context.ids), context.tokens > 0) == (1, True)
    assert context.injection_id
    assert "chef" in ops.block
    assert "chef" not in context.block
    assert repeated.block == ""


async def test_a_long_conversation_gets_context_too(daemon: DaemonProcess) -> None:
    async with AsyncClient(daemon.socket) as client:
        source = SocketContextSource(client)
        asked = ContextQuestion(text=QUESTION, present=["a line of an old log\n" * 50_000] * 3)
        assert "make release" in (await source.context(asked)).block


async def test_an_adapter_over_the_socket(daemon: DaemonProcess) -> None:
    async with AsyncClient(daemon.socket) as client:
        adapter = ContextAwareModelAdapter(
            FunctionModelAdapter(_echo), SocketContextSource(client), position="tail", deadline_s=30
        )
        (message,) = await adapter.complete([{"role": "user", "content": QUESTION}])
    assert "make release" in message["content"]


async def test_without_a_daemon_it_fails_immediately_and_the_call_goes_out(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    async with AsyncClient(tmp_path / "nobody.sock", start_timeout_s=600) as client:
        source = SocketContextSource(client)
        async with asyncio.timeout(60):
            with pytest.raises(DaemonUnreachable):
                await source.context(ContextQuestion(text=QUESTION))
        adapter = ContextAwareModelAdapter(FunctionModelAdapter(_echo), source, deadline_s=60)
        assert await adapter.complete(messages) is messages
    assert adapter.outcomes == {"daemon_unreachable": 1}
    assert client.start_timeout_s == 600


async def _echo(messages: Any) -> Any:
    return messages


@given(st.lists(st.text(max_size=5), max_size=6), st.integers(0, 20))
def test_the_latest_texts_are_kept_within_the_limit(texts: list[str], most: int) -> None:
    kept = latest(texts, most)
    assert kept == texts[len(texts) - len(kept) :]
    assert sum(len(text.encode()) for text in kept) <= most
    if len(kept) < len(texts):
        following = texts[len(texts) - len(kept) - 1]
        assert sum(len(text.encode()) for text in [following, *kept]) > most
