"""One suite for `AsyncClient` and `Client`, which must behave the same."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import uvloop

from agentctx.client.async_client import AsyncClient
from agentctx.client.session import MAX_REPEATS
from agentctx.client.sync_client import Client
from agentctx.errors import AgentctxError, DaemonUnreachable, InvalidInput, NotFound, VersionConflict
from agentctx.wire import (
    ContextReply,
    EntryPage,
    ExplainReply,
    ForgetAllReply,
    ForgetReply,
    InjectionList,
    NamespaceCount,
    NamespaceList,
    RetryReply,
    SaveManyReply,
    SaveRequest,
    SaveResult,
    SearchReply,
    VersionPage,
)
from tests.client.conftest import Do
from tests.client.stub_daemon import (
    ID,
    StubDaemon,
    doctor_reply,
    entry,
    passage,
    queue_reply,
    save_result,
    status_reply,
)


async def test_a_save_has_the_clients_namespace_and_its_own_idempotency_key(
    do: Do, daemon: StubDaemon
) -> None:
    daemon.answer("POST", "/v1/entries", (201, save_result(redacted=["aws_access_key"])))

    result = await do("save", "knowledge", "text", key="k", tags=["a"], cues=["When?"])
    await do("save", "knowledge", "text", key="k", namespace="other")

    first, second = daemon.seen
    assert result == save_result(redacted=["aws_access_key"])
    assert first.body == {
        "collection": "knowledge",
        "content": "text",
        "key": "k",
        "tags": ["a"],
        "cues": ["When?"],
        "namespace": "team",
        "origin": "agent",
    }
    assert second.body["namespace"] == "other"
    keys = {seen.headers["idempotency-key"] for seen in daemon.seen}
    assert len(keys) == 2
    assert all(re.fullmatch(r"[0-9a-f]{20}", key) for key in keys)


async def test_save_methods_fill_the_fields_of_their_collection(do: Do, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/entries", (201, save_result()))

    await do("save_knowledge", "k", "text", tags=["a", "b"], cues=["When?"], ttl="30d")
    await do("save_observation", "s", "text", agent="planner", wait="embedded")
    await do("save_reflection", "s", "text", generation=2)
    await do("save_learning", "t", error_pattern="e", diagnosis="d", fix="f", category="timeout")

    shared = {"namespace": "team", "origin": "agent"}
    assert [seen.body for seen in daemon.seen] == [
        {
            "collection": "knowledge",
            "key": "k",
            "content": "text",
            "category": "fact",
            "tags": ["a", "b"],
            "cues": ["When?"],
            "ttl": "30d",
            **shared,
        },
        {
            "collection": "observation",
            "session": "s",
            "content": "text",
            "agent": "planner",
            "wait": "embedded",
            **shared,
        },
        {"collection": "reflection", "session": "s", "content": "text", "generation": 2, **shared},
        {
            "collection": "learning",
            "trigger": "t",
            "error_pattern": "e",
            "diagnosis": "d",
            "fix": "f",
            "category": "timeout",
            **shared,
        },
    ]


async def test_a_save_whose_connection_drops_is_repeated_with_the_same_key(
    do: Do, daemon: StubDaemon
) -> None:
    daemon.answer("POST", "/v1/entries", (201, save_result()))
    daemon.dropping = 1

    assert await do("save", "knowledge", "text", key="k") == save_result()

    first, second = daemon.seen
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


async def test_a_read_whose_connection_drops_is_repeated_a_few_times(do: Do, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/queue", (200, queue_reply()))
    daemon.dropping = 1
    assert await do("queue") == queue_reply()
    assert len(daemon.seen) == 2

    daemon.dropping = 1 + MAX_REPEATS
    with pytest.raises(DaemonUnreachable, match="without an answer"):
        await do("queue")
    assert len(daemon.seen) == 2 + 1 + MAX_REPEATS


@pytest.mark.parametrize(
    ("name", "args"),
    [("edit", (ID,)), ("forget", (ID,)), ("outcome", (ID, True)), ("retry_buried", ()), ("doctor_fix", ())],
)
async def test_a_call_that_is_not_idempotent_is_not_repeated(
    do: Do, daemon: StubDaemon, name: str, args: tuple[Any, ...]
) -> None:
    daemon.dropping = 1

    with pytest.raises(DaemonUnreachable, match="without an answer"):
        await do(name, *args)
    assert len(daemon.seen) == 1


async def test_many_saves_return_a_result_or_an_error_each(do: Do, daemon: StubDaemon) -> None:
    error = {"error": {"code": "invalid_input", "message": "content is missing", "hint": "send it"}}
    results = SaveManyReply(results=[save_result()])
    daemon.answer("POST", "/v1/entries", (200, {"results": [fields_of(results.results[0]), error]}))

    saved, failed = await do("save_many", [SaveRequest(collection="knowledge", key="k", content="c")] * 2)

    assert saved == save_result()
    assert isinstance(failed, InvalidInput)
    assert (failed.message, failed.hint) == ("content is missing", "send it")


def fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


async def test_entries_are_read_listed_edited_and_forgotten(do: Do, daemon: StubDaemon) -> None:
    page = EntryPage(entries=[entry()], next="abc")
    versions = VersionPage(versions=[entry(), entry(version=1, live=False)], next="1")
    forgotten = ForgetReply(id=ID, versions=2)
    daemon.answer("GET", f"/v1/entries/{ID}", (200, entry()))
    daemon.answer("GET", "/v1/entries", (200, page))
    daemon.answer("GET", f"/v1/entries/{ID}/versions", (200, versions))
    daemon.answer("PATCH", f"/v1/entries/{ID}", (200, save_result(version=3)))
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, forgotten))
    daemon.answer("POST", f"/v1/learnings/{ID}/outcome", (200, save_result(version=4)))

    assert await do("get", ID, 2) == entry()
    assert await do("list", collections=["knowledge"], limit=5, cursor="x") == page
    assert await do("history", ID, limit=2, cursor="3") == versions
    assert await do("edit", ID, content="new", if_version=2) == save_result(version=3)
    assert await do("forget", ID, if_version=3) == forgotten
    assert await do("outcome", ID, success=False) == save_result(version=4)

    assert [seen.query for seen in daemon.seen] == [
        {"version": ["2"]},
        {"namespace": ["team"], "collection": ["knowledge"], "limit": ["5"], "cursor": ["x"]},
        {"limit": ["2"], "cursor": ["3"]},
        {},
        {"if_version": ["3"]},
        {},
    ]
    assert daemon.seen[3].body == {"content": "new", "if_version": 2}
    assert daemon.seen[5].body == {"success": False}


async def test_search_and_context_return_their_replies(do: Do, daemon: StubDaemon) -> None:
    found = SearchReply(results=[passage(), passage(distance=None)], degraded="the model is being built")
    block = ContextReply(block="## Semantic Context (RAG)\n", tokens=7, results=[passage()], degraded=None)
    daemon.answer("POST", "/v1/search", (200, found))
    daemon.answer("POST", "/v1/context", (200, block))

    assert await do("search", "when?", collections=["knowledge"], order="distance", limit=3) == found
    assert await do("context", "when?", budget_tokens=500) == block

    search, context = (seen.body for seen in daemon.seen)
    assert search == {
        "query": "when?",
        "namespace": "team",
        "collections": ["knowledge"],
        "order": "distance",
        "limit": 3,
    }
    assert context == {"query": "when?", "namespace": "team", "order": "relevance", "budget_tokens": 500}


async def test_entries_are_named_by_their_key(do: Do, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[entry()], next=None)))
    daemon.answer("GET", f"/v1/entries/{ID}", (200, entry()))
    daemon.answer("PATCH", f"/v1/entries/{ID}", (200, save_result(version=3)))
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, ForgetReply(id=ID, versions=2)))

    assert await do("get", key="plan") == entry()
    assert await do("edit", key="plan", namespace="other", content="new") == save_result(version=3)
    assert await do("forget", key="plan", collection="knowledge") == ForgetReply(id=ID, versions=2)

    shared = {"key": ["plan"], "content": ["false"], "limit": ["10"]}
    assert [seen.query for seen in daemon.seen[::2]] == [
        {**shared, "namespace": ["team"]},
        {**shared, "namespace": ["other"]},
        {**shared, "namespace": ["team"], "collection": ["knowledge"]},
    ]
    assert daemon.seen[3].body == {"content": "new"}


async def test_namespaces_are_listed_with_their_counts(do: Do, daemon: StubDaemon) -> None:
    found = NamespaceList(namespaces=[NamespaceCount(namespace="user:ann", entries=2)], more=0)
    daemon.answer("GET", "/v1/namespaces", (200, found))
    assert await do("namespaces") == found
    assert daemon.seen[0].query == {}


async def test_a_namespace_is_forgotten(do: Do, daemon: StubDaemon) -> None:
    gone = ForgetAllReply(namespace="user:ann", entries=2)
    daemon.answer("DELETE", "/v1/entries", (200, gone))
    assert await do("forget_all", "user:ann") == gone
    assert await do("forget_all", namespace="user:ann", dry_run=True) == gone
    assert [seen.query for seen in daemon.seen] == [
        {"namespace": ["user:ann"]},
        {"namespace": ["user:ann"], "dry_run": ["true"]},
    ]


async def test_receipts_and_explanations_are_returned(do: Do, daemon: StubDaemon) -> None:
    last = InjectionList(injections=[])
    why = ExplainReply(entry=ID, verdict="relevance", message="too improbable", candidates=[])
    daemon.answer("GET", "/v1/injections", (200, last))
    daemon.answer("POST", "/v1/injections/explain", (200, why))
    daemon.fail("GET", "/v1/injections/a%2Fb", 404, "not_found", "no such receipt")

    assert await do("injections", 3) == last
    assert await do("why_not", ID, "when?", position="system", present=["a"]) == why
    with pytest.raises(NotFound):
        await do("injection", "a/b")

    listed, explained, _ = daemon.seen
    assert listed.query == {"limit": ["3"]}
    assert explained.body == {
        "entry": ID,
        "query": "when?",
        "namespace": "team",
        "order": "relevance",
        "position": "system",
        "present": ["a"],
    }


async def test_operations_calls_return_their_replies(do: Do, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/status", (200, status_reply()))
    daemon.answer("GET", "/v1/queue", (200, queue_reply()))
    daemon.answer("POST", "/v1/queue/retry", (200, RetryReply(retried=4)))
    daemon.answer("GET", "/readyz", (503, {}), (200, {"status": "ok"}))
    daemon.answer("GET", "/v1/doctor", (200, doctor_reply()))
    daemon.answer("POST", "/v1/doctor/fix", (200, doctor_reply(fixed="gave the file mode 0600")))
    daemon.answer("POST", "/v1/queue/drain", (200, queue_reply(pending=0)))
    daemon.answer("GET", "/metrics", b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\na 1\n")

    assert await do("status") == status_reply()
    assert await do("queue") == queue_reply()
    assert await do("retry_buried") == RetryReply(retried=4)
    assert [await do("ready"), await do("ready")] == [False, True]
    assert await do("doctor") == doctor_reply()
    assert await do("doctor_fix") == doctor_reply(fixed="gave the file mode 0600")
    assert await do("drain", timeout_s=2.5) == queue_reply(pending=0)
    assert daemon.seen[-1].body == {"timeout_s": 2.5}
    assert await do("metrics") == "a 1\n"


async def test_errors_of_the_daemon_are_raised_as_their_classes(do: Do, daemon: StubDaemon) -> None:
    daemon.fail("POST", "/v1/entries", 409, "version_conflict", "version 3 is live", "read it again")
    with pytest.raises(VersionConflict) as caught:
        await do("save", "knowledge", "text", key="k", if_version=2)
    assert (caught.value.message, caught.value.hint) == ("version 3 is live", "read it again")

    with pytest.raises(NotFound):
        await do("get", "unknown")

    daemon.fail("GET", "/v1/status", 500, "from_the_future", "odd")
    with pytest.raises(AgentctxError) as unknown:
        await do("status")
    assert unknown.value.code == "from_the_future"


async def test_a_reply_of_another_shape_raises_an_error_that_names_the_field(
    do: Do, daemon: StubDaemon
) -> None:
    daemon.answer("GET", "/v1/queue", (200, {"pending": 0}))

    with pytest.raises(AgentctxError, match=r"reply\.buried"):
        await do("queue")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_the_socket_comes_from_the_environment_or_the_argument(
    kind: type[Client | AsyncClient], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTCTX_SOCKET", str(tmp_path / "named.sock"))

    assert kind().socket == tmp_path / "named.sock"
    assert kind(tmp_path / "mine.sock").socket == tmp_path / "mine.sock"


async def test_both_clients_are_context_managers(daemon: StubDaemon) -> None:
    daemon.version = "1.2.3"
    daemon.answer("GET", "/v1/queue", (200, queue_reply()))

    with Client(daemon.socket) as client:
        assert client.queue() == queue_reply()
    async with AsyncClient(daemon.socket) as async_client:
        assert await async_client.queue() == queue_reply()
    assert client.daemon_version == async_client.daemon_version == "1.2.3"


def test_both_clients_have_the_same_methods() -> None:
    def signatures(kind: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(member))
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") or name == "__init__"
        }

    # Streams are asynchronous in one client, which also accepts asynchronous sources.
    asynchronous = {
        name: signature.replace("AsyncIterator", "Iterator")
        .replace(" | AsyncIterable[wire.SaveRequest]", "")
        .replace("AsyncTransport", "Transport")
        for name, signature in signatures(AsyncClient).items()
    }
    assert asynchronous == signatures(Client)
    assert len(asynchronous) >= 27


@pytest.mark.parametrize(
    ("method", "arguments", "unknown", "taken"),
    [
        ("save_knowledge", ("k", "text"), "metadata", "key, content, namespace, .*, tags, .*, category"),
        ("save_observation", ("s", "text"), "key", "session, content, .*, source"),
        ("search", ("when?",), "filter", "query, namespace, .*, namespaces, .*"),
        ("edit", (ID,), "session", "entry_id, key, namespace, collection, content, .*, clear"),
        ("list", (), "sesion", "namespace, .*, session, .*, cursor"),
        ("export", (), "namespace", "namespaces, .*"),
        ("forget", (ID,), "version", "entry_id, if_version, with_copies, key, namespace, collection"),
    ],
)
async def test_an_unknown_option_is_refused_by_the_methods_name(
    do: Do, daemon: StubDaemon, method: str, arguments: tuple[str, ...], unknown: str, taken: str
) -> None:
    with pytest.raises(TypeError, match=rf"^{method}\(\) takes no '{unknown}'\. It takes {taken}\.$"):
        await do(method, *arguments, **{unknown: "x"})
    assert daemon.seen == []


def test_frameworks_recognise_the_methods_of_the_asynchronous_client() -> None:
    assert inspect.iscoroutinefunction(AsyncClient.search)
    assert not inspect.iscoroutinefunction(Client.search)


def test_the_client_works_on_uvloop(daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/entries", (201, save_result()))

    async def save() -> SaveResult:
        async with AsyncClient(daemon.socket) as client:
            return await client.save("knowledge", "text", key="k")

    assert uvloop.run(save()) == save_result()
