"""URLs with several hosts: which are tried, and in which order."""

from __future__ import annotations

import asyncio
import socket

import pytest

from agentctx.errors import ConfigInvalid
from agentctx_postgresql import driver
from agentctx_postgresql.driver import Server, each_host
from agentctx_postgresql_tests.clients import opened, save
from agentctx_postgresql_tests.server import USER

WAIT_S = 60


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://a@h/b?x=1", ["postgresql://a@h/b?x=1"]),
        ("postgresql://a@h1:1,h2/b?x=1", ["postgresql://a@h1:1/b?x=1", "postgresql://a@h2/b?x=1"]),
        ("postgresql://a@/b?host=/x,/y", ["postgresql://a@/b?host=/x", "postgresql://a@/b?host=/y"]),
        (
            "postgresql://a@/b?host=h,/y&port=1,2",
            ["postgresql://a@/b?host=h&port=1", "postgresql://a@/b?host=/y&port=2"],
        ),
        (
            "postgresql://a@/b?host=/x,/y&port=7",
            ["postgresql://a@/b?host=/x&port=7", "postgresql://a@/b?host=/y&port=7"],
        ),
    ],
)
def test_each_host_gets_its_own_url(url: str, hosts: list[str]) -> None:
    assert each_host(url) == hosts


def test_mismatched_ports_are_a_configuration_error() -> None:
    with pytest.raises(ConfigInvalid, match="3 hosts and 2 ports"):
        each_host("postgresql://a@/b?host=x,y,z&port=1,2")


def test_no_password_is_sent_without_tls_to_the_second_host() -> None:
    server = Server(url="postgresql://a@localhost:1,db.example:2/b?sslmode=disable", password="hush")
    with pytest.raises(ConfigInvalid, match="without TLS"):
        _ = server.arguments


async def test_a_silent_host_does_not_prevent_trying_the_next(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "CONNECT_TIMEOUT_S", 1.0)
    name, _, folder = database.split("@/")[1].partition("?host=")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        url = f"postgresql://{USER}@/{name}?host=127.0.0.1,{folder}&port={port},5432&sslmode=disable"
        async with asyncio.timeout(WAIT_S):
            storage = await opened(url)
            try:
                saved = await save(storage, "text")
                assert await storage.entries.get(saved) is not None
            finally:
                await storage.close()
