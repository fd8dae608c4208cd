"""No text, prompt, key or token of a request appears in the log, the metrics or the daemon's status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentctx_testing.fake_provider.serving import running
from tests.end_to_end.daemon_process import DaemonProcess

CANARY = "canary9f8e7d6c5b4a"
TEXT = f"{CANARY} said\r\n\x1b[31mERROR forged"
HEADERS = {
    "Authorization": f"Bearer sk-{CANARY}",
    "X-Api-Key": CANARY,
    "Cookie": f"session={CANARY}",
    "User-Agent": CANARY,
    "Idempotency-Key": CANARY,
    "X-Agentctx-Request-Id": CANARY,
}
PROMPT = {
    "model": "m",
    "messages": [{"role": "system", "content": TEXT}, {"role": "user", "content": TEXT}],
}


def config(base_url: str, level: str) -> str:
    return f"""
[embedding]
provider = "openai-compatible"
base_url = "{base_url}"
model = "words"
api_key = "sk-{CANARY}"
[injection]
store_prompts = true
[log]
level = "{level}"
"""


def good_requests() -> Iterator[tuple[str, str, Any]]:
    """A canary in every field that takes a text."""
    named = {"session": CANARY, "agent": CANARY, "namespace": CANARY}
    yield "POST", "/v1/entries", {"collection": "memory", "content": TEXT, "key": CANARY, "tags": [CANARY]}
    yield "POST", "/v1/entries", {"collection": "knowledge", "key": CANARY, "content": TEXT, "source": CANARY}
    yield "POST", "/v1/entries", {"collection": "observation", "content": TEXT, **named}
    yield "POST", "/v1/entries", {"collection": "learning", "trigger": TEXT, "fix": TEXT, "diagnosis": TEXT}
    for route in ("search", "context"):
        yield "POST", f"/v1/{route}", {"query": TEXT, **named}
    yield "POST", "/v1/context", {"query": TEXT, "position": "tail", "present": [TEXT]}
    yield "POST", "/v1/injections/explain", {"query": TEXT, "entry": CANARY}
    yield "GET", f"/v1/entries?namespace={CANARY}&key_prefix={CANARY}&session={CANARY}", None


def bad_requests(openapi: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield every operation with a canary in its path, in every parameter, and as every field of its body."""
    fields = {
        name for schema in openapi["components"]["schemas"].values() for name in schema.get("properties", {})
    }
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
            query = "&".join(f"{name}={CANARY}" for name in names)
            filled = path.replace("{action}", CANARY)
            while "{" in filled:
                start, end = filled.index("{"), filled.index("}")
                filled = filled[:start] + CANARY + filled[end + 1 :]
            yield method.upper(), f"{filled}?{query}", None
            if "requestBody" in operation:
                yield method.upper(), filled, dict.fromkeys(sorted(fields), TEXT)
                yield method.upper(), filled, TEXT
                yield method.upper(), filled, {CANARY: {CANARY: [TEXT]}}


def ask(daemon: DaemonProcess) -> str:
    """Send everything; return what the daemon then reports about itself."""
    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    with httpx.Client(transport=transport, base_url="http://agentctx", timeout=30, headers=HEADERS) as http:
        openapi = http.get("/openapi.json").json()
        statuses = [
            http.request(method, url, json=body).status_code
            for method, url, body in (*good_requests(), *bad_requests(openapi))
        ]
        assert {200, 400, 404} <= set(statuses)
        assert not [status for status in statuses if status == 500]
        for vendor in ("openai", "anthropic"):
            http.post(f"/proxy/{vendor}/v1/chat/completions?key={CANARY}", json=PROMPT)
        http.post("/v1/entries", content=b'{"content": "' + CANARY.encode() + b"\xff")
        http.post("/v1/queue/drain", json={"timeout_s": 20.0})
        reports = [
            http.get(path).text for path in ("/metrics", "/v1/status", "/v1/doctor?offline=true", "/v1/queue")
        ]
        trail = json.dumps(http.get("/v1/audit?limit=1000").json()["events"])
        return "\n".join(reports) + trail.replace(f'"namespace": "{CANARY}"', "")


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_no_canary_appears_in_the_log_or_any_report(
    level: str, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    async with running() as provider:
        daemon = make_daemon(config=config(provider.base_url("openai-compatible"), level))
        await asyncio.to_thread(daemon.start)
        reports = await asyncio.to_thread(ask, daemon)
        await asyncio.to_thread(daemon.stop)
    assert [line for line in daemon.log if CANARY in repr(line)] == []
    assert [line for line in reports.splitlines() if CANARY in line] == []
