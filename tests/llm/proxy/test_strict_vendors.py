"""A call fares the same with the proxy as without, whatever a vendor refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.llm.proxy.running_proxy import MEMORY, QUESTION, RunningProxy, running_proxy
from tests.llm.proxy.strict_vendors import ROW, STRICT, Strict, StrictServer, strict_server

RESENT = {
    "system": {
        "no system role", "no system", "no system instruction",
        "known fields of a response", "short instructions", "one system block", "no new instructions",
        "a small body", "a small context", "no markup in a text", "roles alternate", "a small message",
        "three messages at most", "refuses every call",
    },
    "tail": {
        "one text part", "one text part per content", "a small body", "a small context",
        "no markup in a text", "a small message", "refuses every call",
    },
}  # fmt: skip
"""What only the second try can serve."""


def body_of(row: str, strict: Strict, question: str) -> dict[str, Any]:
    return {"model": row, **strict.call(question)}


async def asked(
    client: httpx.AsyncClient, base: str, row: str, question: str
) -> tuple[int, bytes, httpx.Headers]:
    strict = STRICT[row]
    path = strict.path.format(row=row.replace(" ", "-").replace(":", ""))
    reply = await client.post(base + path, json=body_of(row, strict, question), headers={ROW: row})
    return reply.status_code, reply.content, reply.headers


def strict_urls(server: StrictServer) -> dict[str, str]:
    address = f"http://127.0.0.1:{server.port}"
    return {f"{name}_url": f"{address}/{name}" for name in ("openai", "anthropic", "gemini", "ollama")}


@pytest.mark.usefixtures("logging_as_before")
@pytest.mark.parametrize("position", ["system", "tail"])
async def test_a_call_fares_the_same_as_without_us(tmp_path: Path, position: str) -> None:
    assert len(STRICT) >= 40
    async with strict_server() as server:
        proxy = {**strict_urls(server), "position": position}
        async with (
            running_proxy(tmp_path, proxy=proxy) as running,
            running.over_socket() as through,
            httpx.AsyncClient(trust_env=False) as direct,
        ):
            different, resent = {}, set()
            for row in STRICT:
                for question in (QUESTION, "What do otters eat?"):
                    plain = await asked(direct, f"http://127.0.0.1:{server.port}", row, question)
                    before = server.tries[row]
                    proxied = await asked(through, "", row, question)
                    tries = server.tries[row] - before
                    if proxied[:2] != plain[:2]:
                        different[row, question] = plain[:2], proxied[:2]
                    assert (tries == 2) == ("x-agentctx-left-out" in proxied[2]), (row, tries, proxied)
                    if tries == 2:
                        resent.add(row)
            assert not different
            assert resent == RESENT[position]


async def refused_twice(running: RunningProxy, row: str, count: int) -> list[httpx.Headers]:
    async with running.over_socket() as client:
        replies = [await asked(client, "", row, f"{QUESTION} {n}") for n in range(count)]
    assert {status for status, _, _ in replies} == {200}
    return [headers for _, _, headers in replies]


@pytest.mark.usefixtures("logging_as_before")
async def test_after_three_refusals_a_model_is_spared(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    row = "no markup in a text"
    async with (
        strict_server() as server,
        running_proxy(tmp_path, proxy=strict_urls(server)) as running,
    ):
        headers = await refused_twice(running, row, 5)
        left_out = [each["x-agentctx-left-out"] for each in headers]
        assert left_out == ["refused 422"] * 3 + ["refused before"] * 2
        assert server.tries[row] == 3 * 2 + 2
        assert "call_refused_with_context" in capfd.readouterr().out
        view = await running.memory.injection(headers[0]["x-agentctx-injection"])
        assert (view.injected, view.fates.get("refused"), view.block_hash) == (0, 1, None)
        (spared,) = (await running.memory.status()).without_context
        assert (spared.model, spared.status) == (row, 422)
        (check,) = (await running.memory.doctor(only=["running.context"])).checks
        assert check.status == "warn"
        assert row in check.message
        await refused_twice(running, "content is a string", 1)
        assert server.tries["content is a string"] == 1, "another model has its context"


@pytest.mark.usefixtures("logging_as_before")
async def test_a_refused_block_is_not_repeated_in_its_conversation(tmp_path: Path) -> None:
    async with (
        strict_server() as server,
        running_proxy(tmp_path, saved=MEMORY, proxy=strict_urls(server)) as running,
        running.over_socket() as client,
    ):
        row = "no markup in a text"
        turns = [{"role": "user", "content": QUESTION}]
        for n in range(2):
            reply = await client.post(
                "/openai/v1/chat/completions",
                json={"model": row, "messages": turns},
                headers={ROW: row, "X-Agentctx-Session": "s"},
            )
            assert reply.status_code == 200
            turns += [
                {"role": "assistant", "content": "Tuesday."},
                {"role": "user", "content": f"Otters? {n}"},
            ]
        assert server.tries[row] == 3
