"""Who may name an upstream, which one, and for how long."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from agentctx.errors import AccessDenied, AgentctxError, InvalidInput
from agentctx.proxy.runs import MAX_RUNS, Runs
from agentctx.service.base import Peer
from tests.proxy.canary import listening
from tests.proxy.running_proxy import RunningProxy, running_proxy

ME = Peer(pid=os.getpid(), uid=os.getuid(), gid=0)
PORT = 18181
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
    return json.dumps({"vendor": vendor, "url": url}).encode()


def test_only_https_and_this_machine_may_be_upstreams() -> None:
    runs = Runs(PORT, lambda _: lambda: True)
    for url in GOOD:
        run = runs.find(runs.begin(ME, body(url)).encode())
        assert run == ("openai", url.rstrip("/"))
    for wrong in [
        *map(body, BAD),
        body("https://a/", "acme"),
        body(7),
        b"[]",
        b"{",
        b"\xff",
        b'{"vendor":"openai"}',
    ]:
        with pytest.raises(InvalidInput):
            runs.begin(ME, wrong)


def test_only_a_process_of_the_daemons_own_user_may() -> None:
    runs = Runs(PORT)
    for peer in (None, Peer(pid=1, uid=os.getuid() + 1, gid=0), Peer(pid=0, uid=os.getuid(), gid=0)):
        with pytest.raises(AccessDenied):
            runs.begin(peer, body(GOOD[0]))


def test_a_run_ends_with_its_process() -> None:
    runs = Runs(PORT)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        token = runs.begin(Peer(pid=process.pid, uid=os.getuid(), gid=0), body(GOOD[0])).encode()
        assert runs.find(token) is not None
    assert runs.find(token) is None
    assert runs.find(b"") is None
    with pytest.raises(InvalidInput):
        runs.begin(Peer(pid=process.pid, uid=os.getuid(), gid=0), body(GOOD[0]))


def test_runs_are_limited_and_ended_ones_make_room() -> None:
    alive = True
    runs = Runs(PORT, lambda _: lambda: alive)
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
        token = await running.memory.begin_run("openai", f"http://{gateway.address}/api/v3")
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


async def test_over_the_socket_it_needs_post(proxy: RunningProxy) -> None:
    async with proxy.over_socket() as http:
        assert (await http.get("/run")).status_code == 404
        assert (await http.post("/run", content=b"{}")).status_code == 400
