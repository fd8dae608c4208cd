"""Whatever a request claims about its sender, the kernel decides the principal and so the rights."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp

from agentctx.config.schema import Settings
from agentctx.daemon.build import Core
from agentctx.server.app import create_app
from agentctx.service.base import Peer
from agentctx.storage.file.driver import Connection
from tests.running_core import running_core, sqlite_of
from tests.service.access.peers import RequestsAs, access_control, grant

REQUESTS: Final = int(os.environ.get("AGENTCTX_SPOOFS", "600"))
"""The full suite has 10,000, which take a minute."""
SEED: Final = 20_261_122
ME: Final = Peer(pid=1, uid=8_001, gid=8_001)

NAMES: Final = (
    *("X-Forwarded-User", "X-Forwarded-For", "X-Forwarded-Groups", "X-Real-IP", "X-Real-User", "Forwarded"),
    *("Remote-User", "REMOTE_USER", "X-Remote-User", "X-Remote-Group", "X-Auth-Request-User", "X-User"),
    *("X-Agentctx-Uid", "X-Agentctx-Gid", "X-Agentctx-Principal", "X-Agentctx-Peer", "X-Agentctx-Token"),
    *("X-Agentctx-Namespace", "X-Agentctx-Agent", "X-Uid", "X-Gid", "Peer", "State", "Uid", "From", "Via"),
    *("Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Original-User", "Impersonate-User"),
    *("SO_PEERCRED", "X-SSL-Client-DN", "X-Client-Cert", "Host", "Origin", "X-HTTP-Method-Override"),
)
FIELDS: Final = (
    *("principal", "uid", "gid", "user", "peer", "owner", "trust", "rights", "role", "state", "_peer"),
    *("principal_uid", "Principal", "credentials", "admin", "as", "sudo", "on_behalf_of", "__peer__"),
)
VALUES: Final = (
    *("0", "root", "-1", "65534", "4294967295", "uid=0", "for=_root;by=0", "Bearer 0", "Basic cm9vdDo="),
    *("0, 8001", "CN=root", "admin", '{"uid": 0}', "uid:0;gid:0", "\u00e4", "localhost", "GET", ""),
)


def headers(dice: random.Random) -> list[tuple[bytes, bytes]]:
    names = dice.choices(NAMES, k=dice.randint(1, 6))
    cased = [dice.choice((name.lower(), name.lower().replace("-", "_"))) for name in names]
    return [(name.encode(), dice.choice(VALUES).encode()) for name in cased]


def request(dice: random.Random, number: int) -> tuple[str, str, dict[str, Any] | None, set[int]]:
    """Method, path and body, and the possible answers."""
    saved = {"collection": "knowledge", "key": str(number), "content": f"fact {number}"}
    lie = {dice.choice(FIELDS): dice.choice((0, "root", {"uid": 0}, [0], True, None))}
    return dice.choice(
        (
            ("POST", "/v1/entries", saved, {201}),
            ("POST", f"/v1/entries?uid=0&{dice.choice(FIELDS)}=0", saved, {201, 400}),
            ("POST", "/v1/entries", {**saved, **lie}, {400}),
            ("POST", "/v1/entries", {"entries": [{**saved, **lie}]}, {400}),
            ("POST", "/v1/entries", {**saved, "namespace": "theirs"}, {403}),
            ("POST", "/v1/search", {"query": "fact", "namespace": "theirs"}, {403}),
            ("POST", "/v1/revocations", {"agent": "a"}, {403}),
            ("GET", dice.choice(("/v1/status", "/v1/audit", "/metrics", "/v1/queue")), None, {403}),
            ("GET", dice.choice(("/v1/status?uid=0", "/v1/queue?principal=0")), None, {400, 403}),
        )
    )


def gives_one_of_ours_twice(sent: list[tuple[bytes, bytes]]) -> bool:
    return any(
        count > 1 and name.startswith(b"x-agentctx-")
        for name, count in Counter(name for name, _ in sent).items()
    )


async def status_of(
    app: ASGIApp, method: str, target: str, body: Any, sent: list[tuple[bytes, bytes]]
) -> int:
    """Send a request without a client library, which would correct some of the headers."""
    raw = b"" if body is None else json.dumps(body).encode()
    path, _, query = target.partition("?")
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"content-length", str(len(raw)).encode()), *sent],
        "client": ("0", 0),
        "server": ("agentctx", None),
    }
    await app(scope, receive, send)
    return statuses[0]


def application(core: Core) -> ASGIApp:
    access = access_control(grant("write", "default", uid=ME.uid))
    return RequestsAs(create_app(core, core.guard(access), Settings()), ME)


def principals(conn: Connection) -> dict[tuple[str, int], int]:
    rows = conn.execute("SELECT namespace, principal, COUNT(*) FROM entries GROUP BY 1, 2")
    return {(namespace, principal): count for namespace, principal, count in rows}


async def test_nothing_in_a_request_changes_who_sent_it(tmp_path: Path) -> None:
    dice, statuses, unexpected = random.Random(SEED), Counter[int](), []
    async with running_core(tmp_path, None) as core:
        app = application(core)
        for number in range(REQUESTS):
            method, path, body, possible = request(dice, number)
            sent = headers(dice)
            status = await status_of(app, method, path, body, sent)
            statuses[status] += 1
            if status not in ({400} if gives_one_of_ours_twice(sent) else possible):
                unexpected.append((status, method, path, body, sent))
        found = await sqlite_of(core).db.readers.run(principals)
    print(f"{REQUESTS:,} spoofed requests, seed {SEED}: {dict(statuses)}, {len(unexpected)} unexpected")  # noqa: T201 - the figure
    assert unexpected == []
    assert found == {("default", ME.uid): statuses[201]}
