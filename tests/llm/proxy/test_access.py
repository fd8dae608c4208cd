"""Access to the proxy over TCP."""

from __future__ import annotations

import secrets
import stat
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from agentctx.errors import AccessDenied, ConfigInvalid, InvalidInput
from agentctx.llm.proxy.access import NamespaceAccess, TokenAccess, read_token

TOKEN = "t" * 43
HOST = (b"host", b"127.0.0.1:18181")


class Behind:
    """An application that records what reaches it."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)


async def ask(*headers: tuple[bytes, bytes], path: str = "/proxy/openai/v1/models") -> Scope:
    behind = Behind()
    access = TokenAccess(behind, token=TOKEN, peer="me", namespaces=("default", "team"))
    scope: dict[str, Any] = {
        "type": "http",
        "path": path,
        "raw_path": path.encode(),
        "headers": list(headers),
    }

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nobody reads or writes here")

    await access(scope, nothing, nothing)
    return behind.scopes[0]


@pytest.mark.parametrize(
    "line",
    [
        (b"x-agentctx-token", TOKEN.encode()),
        (b"authorization", b"Bearer " + TOKEN.encode()),
        (b"x-api-key", TOKEN.encode()),
        (b"x-goog-api-key", TOKEN.encode()),
    ],
)
async def test_the_token_grants_access_and_is_not_forwarded(line: tuple[bytes, bytes]) -> None:
    scope = await ask(HOST, line)
    assert scope["state"]["peer"] == "me"
    assert TOKEN not in repr(scope["headers"])


async def test_the_token_is_removed_from_the_path() -> None:
    scope = await ask(HOST, (b"authorization", b"Bearer vendor"), path=f"/t/{TOKEN}/proxy/gemini/v1/x")
    assert (scope["path"], scope["raw_path"]) == ("/proxy/gemini/v1/x", b"/proxy/gemini/v1/x")
    assert (b"authorization", b"Bearer vendor") in scope["headers"]


async def test_the_route_that_is_found_behind_it_is_known_before_it() -> None:
    class Routing(Behind):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            scope["route"] = "found"

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nobody reads or writes here")

    access = TokenAccess(Routing(), token=TOKEN, peer="me", namespaces=("default",))
    path = "/proxy/openai/v1/models"
    lines = [HOST, (b"x-agentctx-token", TOKEN.encode())]
    scope: dict[str, Any] = {"type": "http", "path": path, "raw_path": path.encode(), "headers": lines}
    await access(scope, nothing, nothing)
    assert scope["route"] == "found"


async def test_a_vendors_key_is_forwarded_with_the_token_removed() -> None:
    scope = await ask(HOST, (b"x-agentctx-token", TOKEN.encode()), (b"authorization", b"Bearer vendor"))
    assert (b"authorization", b"Bearer vendor") in scope["headers"]


@pytest.mark.parametrize(
    "headers",
    [
        [HOST],
        [HOST, (b"x-agentctx-token", b"wrong")],
        [HOST, (b"x-agentctx-token", b"")],
        [HOST, (b"cookie", TOKEN.encode())],
        [(b"host", b"evil.example"), (b"x-agentctx-token", TOKEN.encode())],
        [(b"host", b"127.0.0.1.evil.example:1"), (b"x-agentctx-token", TOKEN.encode())],
        [(b"x-agentctx-token", TOKEN.encode())],
        [HOST, (b"x-agentctx-token", TOKEN.encode()), (b"origin", b"http://127.0.0.1:18181")],
        [HOST, (b"x-agentctx-token", TOKEN.encode()), (b"referer", b"http://a/")],
        [HOST, (b"x-agentctx-token", TOKEN.encode()), (b"sec-fetch-site", b"same-origin")],
    ],
)
async def test_requests_without_the_token_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(AccessDenied):
        await ask(*headers)


async def test_a_wrong_token_in_the_path_is_refused() -> None:
    with pytest.raises(AccessDenied):
        await ask(HOST, path="/t/wrong/proxy/openai/v1/models")


async def test_the_token_is_good_for_its_namespaces_alone() -> None:
    token = (b"x-agentctx-token", TOKEN.encode())
    assert (b"x-agentctx-namespace", b"default") in (await ask(HOST, token))["headers"]
    assert (b"x-agentctx-namespace", b"team") in (await ask(HOST, token, (b"x-agentctx-namespace", b"team")))[
        "headers"
    ]
    for named in (b"secret", b"team,secret", b"team, secret, default"):
        with pytest.raises(AccessDenied):
            await ask(HOST, token, (b"x-agentctx-namespace", named))


def test_a_crash_while_the_token_is_written_leaves_no_broken_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: int) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(secrets, "token_urlsafe", crash)
        with pytest.raises(KeyboardInterrupt):
            read_token(tmp_path / "proxy.token")

    assert len(read_token(tmp_path / "proxy.token")) >= 32
    assert [path.name for path in tmp_path.iterdir()] == ["proxy.token"]


def test_the_file_of_the_token_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_token(path)
    assert len(token) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_token(path) == token


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    read_token(path)
    path.chmod(0o640)
    with pytest.raises(ConfigInvalid, match="ther users can read"):
        read_token(path)


@pytest.mark.parametrize("content", ["", "short\n", "ü" * 40])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigInvalid):
        read_token(path)


async def test_a_header_with_a_pattern_is_refused() -> None:
    async def require(peer: Any, namespace: str) -> None:
        raise AssertionError("it was asked about a pattern")

    access = NamespaceAccess(Behind(), require=require, default="default")
    nobody: Any = None
    scope: Any = {"type": "http", "headers": [(b"x-agentctx-namespace", b"team-*")]}
    with pytest.raises(InvalidInput, match="X-Agentctx-Namespace") as refused:
        await access(scope, nobody, nobody)
    assert "* is for grants" in refused.value.hint
