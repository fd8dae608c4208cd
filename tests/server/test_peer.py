from __future__ import annotations

import ast
import asyncio
import inspect
import os
import socket
import sys

import pytest
import uvicorn
from starlette.requests import Request

from agentctx.errors import RequestFailed
from agentctx.server import http_server, peer
from agentctx.server.peer import peer_of, request_peer
from agentctx.service.base import Peer
from tests.server.running import running

CLIENT = """
import os, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
print(os.getpid(), flush=True)
sock.sendall(b"GET /v1/status HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\nX-Peer-Uid: 0\\r\\n\\r\\n")
while sock.recv(65536): pass
"""


def test_the_peer_of_a_unix_socket_comes_from_the_kernel() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        assert peer_of(ours) == Peer(pid=os.getpid(), uid=os.getuid(), gid=os.getgid())


def test_only_unix_sockets_have_a_peer() -> None:
    with socket.socket(socket.AF_INET) as sock:
        assert peer_of(sock) is None
    assert peer_of(None) is None


def test_a_request_without_a_peer_fails() -> None:
    with pytest.raises(RequestFailed):
        request_peer(Request({"type": "http", "state": {"peer": None}}))
    with pytest.raises(RequestFailed):
        request_peer(Request({"type": "http", "headers": [(b"peer", b"0")]}))


async def test_a_request_from_another_process_has_its_pid() -> None:
    async with running() as daemon:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, os.fspath(daemon.path), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    assert daemon.service.peers == [Peer(pid=int(output), uid=os.getuid(), gid=os.getgid())]


async def test_every_request_of_a_connection_has_its_peer_whatever_its_headers_say() -> None:
    forged = b"X-Peer-Uid: 0\r\nX-Forwarded-User: root\r\nX-Remote-User: root\r\nForwarded: for=0\r\n"
    status = b"GET /v1/status HTTP/1.1\r\nHost: a\r\n" + forged
    async with running() as daemon:
        await daemon.exchange((status + b"\r\n") * 20 + status + b"Connection: close\r\n\r\n")
    assert daemon.service.peers == [Peer(pid=os.getpid(), uid=os.getuid(), gid=os.getgid())] * 21


def test_nothing_of_uvicorn_is_used_but_its_settings_and_the_callbacks_of_asyncio() -> None:
    nodes = [
        node for module in (peer, http_server) for node in ast.walk(ast.parse(inspect.getsource(module)))
    ]
    uses = [node for node in nodes if isinstance(node, ast.Attribute)]
    assert {use.attr for use in uses if ast.unparse(use.value) == "self._http"} <= set(dir(asyncio.Protocol))
    assert {use.attr for use in uses if ast.unparse(use.value) == "uvicorn"} == {"Config", "Server"}
    assert {use.attr for use in uses if ast.unparse(use.value) == "server"} == {"serve", "started", "exit"}
    [server] = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == "_Server"]
    own = {each.name for each in server.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert own & set(dir(uvicorn.Server)) == {"__init__", "main_loop", "capture_signals"}
