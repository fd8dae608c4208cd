"""Many projects full of canaries, and users of one project each who ask for the other canaries.

A user may use the namespace of the project and one of the user's own, and asks both at once, as agents do.

`python -m tests.service.access.isolation --full` does it with 100 x 1,000 canaries and 100,000 reads.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import httpx
from starlette.types import ASGIApp
from structlog.testing import capture_logs

from agentctx.config.schema import Settings
from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import AgentctxError
from agentctx.server.app import create_app
from agentctx.service.access.control import AccessControl
from agentctx.service.base import Peer
from agentctx.service.guard import Guard
from agentctx.service.operations import Method
from agentctx.wire import ContextRequest, SaveRequest
from tests.running_core import ME, embedded, running_core
from tests.service.access.peers import access_control, client_of, grant

_BATCH = 500
_FIRST_UID = 8_000
_CANARY = re.compile(r"canary-(\d+)-\d+")


def canary(namespace: int, number: int) -> str:
    return f"canary-{namespace}-{number}"


def name_of(namespace: int) -> str:
    """Return names that are prefixes of others, or differ only in case."""
    return f"{'team' if namespace % 2 else 'Team'}-{namespace // 2}"


def own_of(namespace: int) -> str:
    """Return the namespace of a project's user."""
    return f"user:{name_of(namespace)}"


def peer_of(namespace: int) -> Peer:
    return Peer(pid=1, uid=_FIRST_UID + namespace, gid=_FIRST_UID + namespace)


@dataclass
class World:
    """The ids of saved entries and of receipts, by namespace."""

    namespaces: int
    canaries: int
    entries: dict[int, list[str]] = field(default_factory=dict)
    receipts: dict[int, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """The results of the reads."""

    reads: int = 0
    own: int = 0
    """Canaries of the reader's own namespace found, so that empty answers do not pass."""
    leaks: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def look(self, text: str, namespace: int, where: str) -> None:
        for found in _CANARY.finditer(text):
            if int(found[1]) == namespace:
                self.own += 1
            else:
                self.leaks.append(f"{where}: {found[0]} to {name_of(namespace)}")


async def fill(core: Core, namespaces: int, canaries: int) -> World:
    """Save the canaries, and have each namespace's user ask one question that leaves a receipt."""
    world = World(namespaces, canaries)
    for namespace in range(namespaces):
        world.entries[namespace] = []
        requests = [_entry(namespace, number) for number in range(canaries)]
        requests.append(replace(_entry(namespace, canaries), namespace=own_of(namespace)))
        for at in range(0, len(requests), _BATCH):
            saved = await core.entries.save(requests[at : at + _BATCH], ME)
            world.entries[namespace] += [_id(result) for result in saved]
    if core.lanes is not None:
        await embedded(core)
    for namespace in range(namespaces):
        question = ContextRequest(
            query=f"password {canary(namespace, 0)}",
            namespaces=[name_of(namespace), own_of(namespace)],
            position="tail",
        )
        reply = await core.questions.context(question, peer_of(namespace))
        assert reply.injection_id is not None
        world.receipts[namespace] = reply.injection_id
    return world


def _entry(namespace: int, number: int) -> SaveRequest:
    text = f"the harbour of the deployment is {canary(namespace, number)}"
    if number % 7 == 0:
        return SaveRequest(
            collection="learning", trigger=text, fix="rotate the harbour", namespace=name_of(namespace)
        )
    return SaveRequest(
        collection="knowledge", key=f"password/{number}", content=text, namespace=name_of(namespace)
    )


def _id(result: Any) -> str:
    assert not isinstance(result, AgentctxError), result
    return str(result.id)


Read = Callable[[httpx.AsyncClient, World, int, int, random.Random], Awaitable[httpx.Response]]


def _foreign_text(world: World, foreign: int, dice: random.Random) -> str:
    return f"the harbour {canary(foreign, dice.randrange(world.canaries))}"


async def _search(http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random) -> Any:
    body = {"query": _foreign_text(world, foreign, dice), "namespace": name_of(me), "limit": 50}
    return await http.post("/v1/search", json=body)


async def _search_both(
    http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random
) -> Any:
    both = [name_of(me), own_of(me)]
    body = {"query": _foreign_text(world, foreign, dice), "namespaces": both, "limit": 50}
    return await http.post("/v1/search", json=body)


async def _ask_too_many(
    http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random
) -> Any:
    """Ask the user's own namespaces with one of another user among them."""
    asked = [name_of(me), own_of(me), dice.choice([name_of, own_of])(foreign)]
    dice.shuffle(asked)
    body = {"query": _foreign_text(world, foreign, dice), "namespaces": asked}
    route = dice.choice(["search", "context", "injections/explain"])
    if route == "injections/explain":
        body["entry"] = dice.choice(world.entries[foreign])
    return await http.post(f"/v1/{route}", json=body)


async def _search_there(
    http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random
) -> Any:
    body = {"query": _foreign_text(world, foreign, dice), "namespace": name_of(foreign)}
    return await http.post("/v1/search", json=body)


async def _inject(http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random) -> Any:
    query = _foreign_text(world, foreign, dice)
    position = dice.choice(["tail", "system", None])
    body = {"query": query, "namespaces": [name_of(me), own_of(me)], "position": position}
    return await http.post("/v1/context", json=body)


async def _list(http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random) -> Any:
    namespace = name_of(dice.choice([me, foreign]))
    cursor = {"cursor": str(dice.randrange(1, world.namespaces * world.canaries))}
    return await http.get("/v1/entries", params={"namespace": namespace, "limit": 20, **cursor})


async def _export(http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random) -> Any:
    named: Mapping[str, Any] = dice.choice(
        [{}, {"namespace": name_of(me)}, {"namespace": [name_of(me), name_of(foreign)]}]
    )
    cursor = str(dice.randrange(1, world.namespaces * world.canaries))
    return await http.get(
        "/v1/export", params={"limit": 10, "cursor": cursor, "history": True, "vectors": True, **named}
    )


async def _by_id(http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random) -> Any:
    entry = f"/v1/entries/{dice.choice(world.entries[foreign])}"
    kind = dice.randrange(5)
    if kind == 0:
        return await http.get(entry)
    if kind == 1:
        return await http.get(f"{entry}/versions")
    if kind == 2:
        return await http.patch(entry, json={"content": "overwritten"})
    if kind == 3:
        return await http.delete(entry)
    return await http.post(entry.replace("entries", "learnings") + "/outcome", json={"success": True})


async def _explain(http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random) -> Any:
    entry = dice.choice(world.entries[foreign])
    namespace = name_of(dice.choice([me, foreign]))
    body = {"entry": entry, "query": _foreign_text(world, foreign, dice), "namespace": namespace}
    return await http.post("/v1/injections/explain", json=body)


async def _receipts(http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random) -> Any:
    path = dice.choice(["", f"/{world.receipts[foreign]}", f"/{world.receipts[me]}"])
    return await http.get(f"/v1/injections{path}")


async def _of_daemon(
    http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random
) -> Any:
    del world, me, foreign
    return await http.get(dice.choice(["/v1/status", "/v1/queue", "/v1/doctor", "/metrics", "/readyz"]))


async def _save_there(
    http: httpx.AsyncClient, world: World, me: int, foreign: int, dice: random.Random
) -> Any:
    del me
    key = f"password/{dice.randrange(world.canaries)}"
    body = {"collection": "knowledge", "key": key, "content": "mine now", "namespace": name_of(foreign)}
    return await http.post("/v1/entries", json=body)


READS: Sequence[Read] = (
    _search,
    _search_both,
    _ask_too_many,
    _search_there,
    _inject,
    _list,
    _export,
    _by_id,
    _explain,
    _receipts,
    _of_daemon,
    _save_there,
)


async def probe(app: ASGIApp, world: World, reads: int, seed: int) -> Outcome:
    """Send random requests by random users; inspect all answers and the whole log."""
    dice, outcome = random.Random(seed), Outcome()
    for number in range(reads):
        me, foreign = dice.sample(range(world.namespaces), 2)
        read = READS[number % len(READS)]
        with capture_logs() as logged:
            async with client_of(app, peer_of(me)) as http:
                reply = await read(http, world, me, foreign, dice)
        where = f"{read.__name__} {reply.request.method} {reply.request.url.path}"
        outcome.look(reply.text + str(reply.headers), me, where)
        outcome.look(str(logged), me, f"log of {where}")
        outcome.statuses[reply.status_code] += 1
        outcome.reads += 1
    return outcome


def application(core: Core, world: World, *, is_guarded: bool = True) -> ASGIApp:
    """Return the HTTP application over the core, deliberately broken if it has no guard."""
    access = _access(world.namespaces)
    guard = core.guard(access) if is_guarded else cast("Guard", NoGuard(access))
    return create_app(core, guard, Settings())


class NoGuard:
    """Lets everyone with a grant call everything."""

    def __init__(self, access: AccessControl) -> None:
        self.access = access

    def __call__(self, method: Method) -> Method:
        return method


def _access(namespaces: int) -> AccessControl:
    return access_control(
        *(grant("write", name_of(each), own_of(each), uid=peer_of(each).uid) for each in range(namespaces))
    )


async def run(folder: Path, namespaces: int, canaries: int, reads: int, seed: int) -> Outcome:
    async with running_core(folder, FakeProvider(dimension=32)) as core:
        world = await fill(core, namespaces, canaries)
        return await probe(application(core, world), world, reads, seed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.service.access.isolation", description=__doc__)
    parser.add_argument("--full", action="store_true", help="100 x 1,000 canaries, 100,000 reads")
    parser.add_argument("--reads", type=int)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    canaries, reads = (1_000, 100_000) if given.full else (50, 2_000)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(run(Path(folder), 100, canaries, given.reads or reads, given.seed))
    sys.stdout.write(
        f"namespaces 100, canaries {100 * canaries:,}, reads {outcome.reads:,}, seed {given.seed}\n"
        f"seen: own {outcome.own:,}, foreign {len(outcome.leaks)}; replies {dict(outcome.statuses)}\n"
        f"{time.monotonic() - started:.0f} s\n"
    )
    raise SystemExit("\n".join(outcome.leaks[:20]) if outcome.leaks else 0)


if __name__ == "__main__":
    main()
