"""Who may name an upstream, which one, and for how long."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from agentctx.errors import AccessDenied, AgentctxError, InvalidInput
from agentctx.llm.proxy.runs import MAX_RUNS, Runs
from agentctx.service.base import Peer
from agentctx_testing.fake_provider.answers import FakeAnswer
from tests.llm.proxy.canary import listening
from tests.llm.proxy.running_proxy import LIMIT_S, MEMORY, QUESTION, RunningProxy, running_proxy

ME = Peer(pid=os.getpid(), uid=os.getuid(), gid=0)
PORT = 18181
KEY = b"key"
GOOD = [
    "https://gateway.corp/v1",
    "https://gateway.corp:8443/a/b/",
    "http://127.0.0.1:11434",
    "http://localhost/v1",
    "http://[::1]:1",
]
BAD = [
    *f"""http://gateway.corp/v1 http://10.0.0.1/v1 http://127.0.0.1.evil.example/ ftp://127.0.0.1/
    file:///etc/passwd https://user:pass@gateway.corp/v1 https://gateway.corp/v1?x=1 https://gateway.corp/v1#x
    https:// //gateway.corp https://gateway.corp/../v1 https://gateway.corp/%2e%2e/v1 https://[::1
    http://127.0.0.1:{PORT}/t/x/proxy http://localhost:{PORT} https://gateway.corp:x/ http://0.0.0.0:1
    https://gàteway/""".split(),
    *("https://gateway corp/", "https://gateway.corp/\r\nX: y", ""),
]


def body(url: object, vendor: str = "openai") -> bytes:
    return json.dumps({"namespaces": ["team", "user:ann"], "vendor": vendor, "url": url}).encode()


def test_only_https_and_this_machine_may_be_upstreams() -> None:
    runs = Runs(PORT, key=KEY, watch=lambda _: lambda: True)
    for url in GOOD:
        run = runs.find(runs.begin(ME, body(url)).encode())
        assert run == (("team", "user:ann"), "openai", url.rstrip("/"))
    for wrong in [
        *map(body, BAD),
        body("https://a/", "acme"),
        body(7),
        b"[]",
        b"{",
        b"\xff",
        b'{"namespaces":["team"],"vendor":"openai"}',
        b'{"vendor":"","url":""}',
        b'{"namespaces":[],"vendor":"","url":""}',
        b'{"namespaces":["a,b"],"vendor":"","url":""}',
        b'{"namespaces":"team","vendor":"","url":""}',
    ]:
        with pytest.raises(InvalidInput):
            runs.begin(ME, wrong)


def test_the_token_of_a_run_without_an_upstream_names_its_namespaces_and_outlives_all() -> None:
    token = Runs(PORT, key=KEY).begin(ME, body("", "")).encode()
    assert Runs(PORT, key=KEY, watch=lambda _: lambda: False).find(token) == (("team", "user:ann"), "", "")
    assert Runs(PORT, key=b"other").find(token) is None
    names, dot, mac = token.partition(b".")
    for forged in (names, names + dot, b"dGVhbQ==" + dot + mac, token + b"0", b".", b"\xff.\xff"):
        assert Runs(PORT, key=KEY).find(forged) is None


def test_only_a_process_of_the_daemons_own_user_may() -> None:
    runs = Runs(PORT, key=KEY)
    for peer in (None, Peer(pid=1, uid=os.getuid() + 1, gid=0), Peer(pid=0, uid=os.getuid(), gid=0)):
        with pytest.raises(AccessDenied):
            runs.begin(peer, body(GOOD[0]))


def test_a_run_ends_with_its_process() -> None:
    runs = Runs(PORT, key=KEY)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        token = runs.begin(Peer(pid=process.pid, uid=os.getuid(), gid=0), body(GOOD[0])).encode()
        assert runs.find(token) is not None
    assert runs.find(token) is None
    assert runs.find(b"") is None
    with pytest.raises(InvalidInput):
        runs.begin(Peer(pid=process.pid, uid=os.getuid(), gid=0), body(GOOD[0]))


def test_runs_are_limited_and_ended_ones_make_room() -> None:
    alive = True
    runs = Runs(PORT, key=KEY, watch=lambda _: lambda: alive)
    for _ in range(MAX_RUNS):
        runs.begin(ME, body(GOOD[0]))
    with pytest.raises(AgentctxError, match="Too many"):
        runs.begin(ME, body(GOOD[0]))
    alive = False
    runs.begin(ME, body(GOOD[0]))


@pytest.mark.usefixtures("logging_as_before")
async def test_a_run_has_its_upstream_for_its_vendor_and_no_key_of_the_operator(tmp_path: Path) -> None:
    async with (
        listening() as configured,
        listening() as gateway,
        running_proxy(
            tmp_path,
            saved="",
            proxy={
                "openai_url": f"http://{configured.address}",
                "anthropic_url": f"http://{configured.address}",
                "openai_key": "operator-key",
            },
        ) as running,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        token = await running.memory.begin_run(
            "openai", f"http://{gateway.address}/api/v3", namespaces=["default"]
        )
        base = f"http://127.0.0.1:{running.port}/t"
        hostile = {"X-Agentctx-Upstream": "https://evil.example", "X-Forwarded-Host": "evil.example"}
        assert (await http.get(f"{base}/{token}/proxy/openai/models", headers=hostile)).status_code == 200
        assert gateway.heads[0].startswith(b"GET /api/v3/models HTTP/1.1\r\n")
        assert b"operator-key" not in gateway.heads[0]
        await http.get(f"{base}/{token}/proxy/anthropic/v1/models")
        await http.get(f"{base}/{running.token}/proxy/openai/v1/models")
        assert (gateway.connections, configured.connections) == (1, 2)
        assert (await http.get(f"{base}/{token}x/proxy/openai/models")).status_code == 403
        # The port is not the socket: nothing that a call can say names an upstream.
        for name in (token, running.token):
            told = await http.post(f"{base}/{name}/proxy/run", content=body(GOOD[0]))
            assert told.status_code == 403
        assert (gateway.connections, configured.connections) == (1, 2)


@pytest.mark.usefixtures("logging_as_before")
async def test_a_run_asks_its_namespaces_and_saves_replies_to_the_first(tmp_path: Path) -> None:
    said = "Rosa announces every deploy in the channel of the operators."
    async with running_proxy(tmp_path, saved="", proxy={"capture": True}) as running:
        for namespace in ("shop", "user:ann", "other"):
            text = f"{MEMORY} This is from {namespace}."
            await running.memory.save_knowledge("deploy", text, namespace=namespace, wait="embedded")
        token = await running.memory.begin_run(namespaces=["shop", "user:ann"])
        running.vendor.answer(FakeAnswer(text=said))
        base = f"http://127.0.0.1:{running.port}/t/{token}/proxy/openai/v1"
        async with httpx.AsyncClient(trust_env=False, timeout=LIMIT_S) as http:
            question = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
            given = await http.post(
                f"{base}/chat/completions", json=question, headers={"authorization": "Bearer k"}
            )
            assert given.status_code == 200
            others = {"X-Agentctx-Namespace": "shop, other"}
            refused = await http.post(f"{base}/chat/completions", json=question, headers=others)
        assert refused.status_code == 403
        sent = running.last.body.decode()
        assert [f"from {each}." in sent for each in ("shop", "user:ann", "other")] == [True, True, False]
    async with running_proxy(tmp_path, saved="") as again:
        kept = [each async for each in again.memory.iterate(namespace="shop", collections=["observation"])]
    assert [each.content for each in kept] == [said]


@pytest.mark.asyncio(loop_scope="module")
async def test_over_the_socket_it_needs_post(proxy: RunningProxy) -> None:
    async with proxy.over_socket() as http:
        assert (await http.get("/run")).status_code == 404
        assert (await http.post("/run", content=b"{}")).status_code == 400
