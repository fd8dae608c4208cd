from __future__ import annotations

import asyncio

import httpx
import pytest

from agentctx.errors import InvalidInput, NotFound
from agentctx_testing.fake_provider.faults import HttpFault, Kind
from agentctx_testing.fake_provider.serving import FakeProviderServer, running

BODY = {"model": "m", "input": ["one", "two"]}


async def ask(http: httpx.AsyncClient) -> httpx.Response:
    return await http.post("/v1/embeddings", json=BODY)


async def test_without_a_script_everything_is_right(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    reply = await ask(http)
    assert reply.status_code == 200
    assert [len(item["embedding"]) for item in reply.json()["data"]] == [8, 8]
    assert [(seen.provider, seen.has_key, seen.payload) for seen in server.requests] == [
        ("openai", True, BODY)
    ]


@pytest.mark.parametrize("kind", ["refuse", "reset", "endless_body"])
async def test_after_a_broken_connection_the_next_is_served(
    server: FakeProviderServer, http: httpx.AsyncClient, kind: Kind
) -> None:
    server.script(HttpFault(kind=kind, request=1))
    if kind == "endless_body":
        received = 0
        async with http.stream("POST", "/v1/embeddings", json=BODY) as reply:
            async for part in reply.aiter_raw():
                received += len(part)
                if received > 5_000_000:
                    break
    else:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await ask(http)
    assert (await ask(http)).status_code == 200


async def test_a_reset_interrupts_the_body(server: FakeProviderServer, http: httpx.AsyncClient) -> None:
    server.script(HttpFault(kind="reset"))
    async with http.stream("POST", "/v1/embeddings", json=BODY) as reply:
        parts = reply.aiter_raw()
        first = await anext(parts)
        with pytest.raises(httpx.ReadError):
            await anext(parts)
    assert reply.status_code == 200
    assert 0 < len(first) < int(reply.headers["content-length"])


@pytest.mark.parametrize("kind", ["slow_headers", "slow_body"])
async def test_a_slow_reply_waits_until_it_is_released(
    server: FakeProviderServer, http: httpx.AsyncClient, kind: Kind
) -> None:
    server.script(HttpFault(kind=kind, request=1))
    asking = asyncio.create_task(ask(http))
    await server.wait_until_held()
    assert (await ask(http)).status_code == 200  # other requests are served
    assert not asking.done()
    assert server.release() == 1
    assert (await asking).json()["model"] == "m"
    assert server.release() == 0


async def test_slow_headers_mean_not_a_byte(server: FakeProviderServer) -> None:
    server.script(HttpFault(kind="slow_body", request=1), HttpFault(kind="slow_headers"))
    request = b"POST /compatible/v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 27\r\n\r\n"
    request += b'{"model":"m","input":["a"]}'
    host, port = server.url.removeprefix("http://").split(":")
    streams = [await asyncio.open_connection(host, int(port)) for _ in range(2)]
    for held, (_, writer) in enumerate(streams, start=1):
        writer.write(request)
        await server.wait_until_held(held)
    (with_head, _), (without, _) = streams
    assert (await with_head.read(12)) == b"HTTP/1.1 200"
    assert not without._buffer  # type: ignore[attr-defined]  # what has come in so far
    for _, writer in streams:
        writer.close()
        await writer.wait_closed()


async def test_a_client_that_leaves_is_not_waited_for(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    server.script(HttpFault(kind="slow_headers"))
    asking = asyncio.create_task(ask(http))
    await server.wait_until_held()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    while server._state.tasks:
        await asyncio.wait(server._state.tasks)
    assert server.release() == 0


async def test_closing_aborts_pending_requests_and_refuses_new_ones(http: httpx.AsyncClient) -> None:
    async with running(faults=[HttpFault(kind="slow_body")]) as own:
        url = f"{own.base_url('openai')}/embeddings"
        asking = asyncio.create_task(http.post(url, json=BODY))
        await own.wait_until_held()
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await asking
    with pytest.raises(httpx.ConnectError):
        await http.post(url, json=BODY)
    await own.aclose()


async def test_a_truncated_reply_is_valid_http_but_invalid_json(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    server.script(HttpFault(kind="truncated_json", request=1), HttpFault(kind="wrong_content_type"))
    with pytest.raises(ValueError, match=r".+"):
        (await ask(http)).json()
    page = await ask(http)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


async def test_a_redirect_shows_whether_the_key_follows(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    server.script(HttpFault(kind="redirect"))
    async with running() as other:
        reply = await ask(http)
        assert (reply.status_code, reply.headers["location"]) == (
            307,
            f"{server.url}/__elsewhere/v1/embeddings",
        )
        await http.post(reply.headers["location"], json=BODY)
        assert [(seen.provider, seen.has_key) for seen in server.requests] == [
            ("openai", True),
            ("elsewhere", True),
        ]
        server.script(HttpFault(kind="redirect", status=302, location=f"{other.url}/__elsewhere/x"))
        reply = await http.post("/v1/embeddings", json=BODY, follow_redirects=True)
        assert reply.json() == {"redirected": True}
        assert [seen.path for seen in other.requests] == ["/__elsewhere/x"]


async def test_another_process_controls_it_over_http(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    faults = [{"kind": "status", "status": 503, "request": 1}, {"kind": "slow_body", "request": 2}]
    assert (await http.post("/__script", json={"faults": faults})).status_code == 204
    assert (await ask(http)).status_code == 503
    asking = asyncio.create_task(ask(http))
    assert (await http.get("/__held", params={"count": 1})).status_code == 204
    assert (await http.post("/__release")).json() == {"released": 1}
    assert (await asking).status_code == 200
    seen = (await http.get("/__requests")).json()["requests"]
    assert [request["fault"] for request in seen] == ["status", "slow_body"]
    assert seen[0]["payload"] == BODY
    assert (await http.post("/__reset")).status_code == 204
    assert (await http.get("/__requests")).json() == {"requests": []}
    assert (await ask(http)).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/__script", b"not json"),
        ("/__script", b'{"faults": [{"kind": "burn"}]}'),
        ("/__script", b'{"fault": []}'),
    ],
)
async def test_a_wrong_script_is_refused_and_changes_nothing(
    server: FakeProviderServer, http: httpx.AsyncClient, path: str, body: bytes
) -> None:
    server.script(HttpFault.with_status(418))
    reply = await http.post(path, content=body)
    assert reply.status_code == 400
    assert reply.json()["error"]
    assert (await ask(http)).status_code == 418
    assert (await http.get("/__held", params={"count": "x"})).status_code == 400


async def test_an_api_key_can_be_required() -> None:
    async with running(key="right", dimension=4) as own, httpx.AsyncClient(trust_env=False) as client:
        url = f"{own.base_url('openai')}/embeddings"
        for key, status in (("right", 200), ("wrong", 401)):
            headers = {"Authorization": f"Bearer {key}"}
            assert (await client.post(url, json=BODY, headers=headers)).status_code == status
        assert "right" not in repr(own.requests)


async def test_addresses() -> None:
    async with running() as own:
        assert own.base_url("google") == f"{own.url}/google/v1beta"
        with pytest.raises(NotFound, match="Unknown fake provider 'acme'"):
            own.base_url("acme")
        with pytest.raises(InvalidInput, match="Cannot listen"):
            await FakeProviderServer(port=int(own.url.rsplit(":", 1)[1])).start()
